"""Requests that CloudFormation refuses before it creates a resource, with AWS's documented messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from moto.core.utils import get_service_model

from localcloud.cloudformation import change_set_actions, inspect_actions, requests, stack_actions
from localcloud.cloudformation.errors import CloudFormationError, ValidationError
from localcloud.cloudformation.model import Stack
from localcloud.cloudformation.resources import registry
from localcloud.cloudformation.resources.registry import Call, Handler, Made, Properties
from localcloud.cloudformation.service import Service
from localcloud.testing import patience

REGION = "eu-west-1"
PARAMETER, HANDLE = "AWS::SSM::Parameter", "AWS::CloudFormation::WaitConditionHandle"
ONE = {"P": {"Type": PARAMETER, "Properties": {"Type": "String", "Value": "x"}}}


class Kept(Handler):
    """A handler of a type that creates nothing."""

    made: list[str] = []

    def create(self, call: Call, properties: Properties) -> Made:
        self.made.append(call.logical_id)
        return Made(f"id-{call.logical_id}-{len(self.made)}", {"Value": str(properties.get("Value"))})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        return Made(physical_id, {"Value": str(new.get("Value"))})

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    handler = Kept()
    handler.resource_type, handler.updatable = PARAMETER, frozenset({"Value"})  # type: ignore[misc]
    for name in (PARAMETER, "AWS::EC2::SecurityGroup"):
        monkeypatch.setitem(registry._HANDLERS, name, handler)
    Kept.made.clear()

    def no_clients(name: str, region: str) -> Any:
        raise AssertionError(f"no AWS here: {name}")

    return Service(no_clients)


def settled(stack: Stack) -> Stack:
    deadline = patience.seconds() + 10
    while stack.busy and patience.seconds() < deadline:
        time.sleep(0.01)
    return stack


Act = Callable[..., Stack]


@pytest.fixture
def create(service: Service) -> Act:
    def act(resources: dict[str, Any] | None = None, name: str = "S", given: Any = None, **sections: Any) -> Stack:
        body = json.dumps({"Resources": resources or ONE, **sections})
        asked = {"StackName": name, "TemplateBody": body, **(given or {})}
        requests.check_model(get_service_model("cloudformation").operation_model("CreateStack").input_shape, asked)
        stack_actions.create_stack(service, REGION, asked)
        return settled(service.get(REGION, name))

    return act


@pytest.fixture
def update(service: Service) -> Act:
    def act(resources: dict[str, Any] | None = None, name: str = "S", given: Any = None, **sections: Any) -> Stack:
        body = json.dumps({"Resources": resources or ONE, **sections})
        stack_actions.update_stack(service, REGION, {"StackName": name, "TemplateBody": body, **(given or {})})
        return settled(service.get(REGION, name))

    return act


def many(count: int, **spec: Any) -> dict[str, Any]:
    return {f"R{number}": spec for number in range(count)}


def one(**change: Any) -> dict[str, Any]:
    return {"P": {**ONE["P"], **change}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "501 resources": ({"resources": many(501, Type=HANDLE)}, "Number of resources, 501, is greater .* 500"),
    "201 parameters": ({"Parameters": many(201, Type="String", Default="")}, "Number of parameters, 201"),
    "201 outputs": ({"Outputs": many(201, Value="x")}, "Number of outputs, 201"),
    "a long description": ({"Description": "é" * 513}, "'Description' length is greater than 1024"),
    "a long template": ({"Metadata": {"A": "x" * 51_200}}, "at 'templateBody' .* less than or equal to 51200"),
    "an unknown version": ({"AWSTemplateFormatVersion": "2012-10-17"}, "AWSTemplateFormatVersion"),
    "an unknown section": ({"Resource": {}}, "Invalid template property or properties"),
    "an unknown attribute": ({"resources": one(DependOn="Q")}, "Invalid template resource property 'DependOn'"),
    "an unknown policy": ({"resources": one(DeletionPolicy="Keep")}, "Unrecognized DeletionPolicy Keep"),
    "a snapshot of a parameter": ({"resources": one(DeletionPolicy="Snapshot")}, "does not support deletion policy"),
    "an unknown parameter type": ({"Parameters": {"Q": {"Type": "Stirng"}}}, "Unrecognized parameter type: Stirng"),
    "a parameter's typo": ({"Parameters": {"Q": {"Type": "String", "Defualt": "x"}}}, "parameter property 'Defualt'"),
    "a name with a dash": ({"resources": {"P-1": ONE["P"]}}, "name P-1 is non alphanumeric"),
    "an output without a value": ({"Outputs": {"O": {"Description": "x"}}}, "must contain a Value object"),
    "three levels of a mapping": ({"Mappings": {"M": {"a": {"b": {"c": "d"}}}}}, "must be a String or a List"),
    "61 dynamic references": ({"Metadata": {"A": ["{{resolve:ssm:a}}"] * 61}}, "61 dynamic references"),
    "an attribute that it lacks": (
        {"Outputs": {"O": {"Value": {"Fn::GetAtt": ["P", "Color"]}}}},
        "resource P does not support attribute type Color in Fn::GetAtt",
    ),
    "the same in Fn::Sub": ({"Outputs": {"O": {"Value": {"Fn::Sub": "${P.Color}"}}}}, "attribute type Color"),
    "a resource in a condition": ({"Conditions": {"C": {"Fn::Equals": [{"Ref": "P"}, "x"]}}}, "the Conditions block"),
    "a condition that is not there": ({"resources": one(Condition="Nope")}, "Nope"),
    "a pseudo parameter that is not there": (
        {"Outputs": {"O": {"Value": {"Ref": "AWS::Zone"}}}}, "Unresolved resource dependencies"),
    "itself": ({"resources": one(DependsOn="P")}, r"Circular dependency between resources: \[P\]"),
    "Fn::If of two": (
        {"resources": one(Properties={"Type": "String", "Value": {"Fn::If": ["C", "x"]}}),
         "Conditions": {"C": {"Fn::Equals": ["x", "x"]}}}, "Fn::If is malformed"),
    "a stack's name": ({"name": "1stack"}, r"at 'stackName' .* pattern: \[a-zA-Z\]"),
    "a long name": ({"name": "s" * 129}, "less than or equal to 128"),
    "51 tags": ({"given": {"Tags": [{"Key": f"k{n}", "Value": "x"} for n in range(51)]}}, "less than or equal to 50"),
    "a tag of AWS's": ({"given": {"Tags": [{"Key": "aws:x", "Value": "x"}]}}, "aws: prefixed tag key names"),
    "a tag twice": ({"given": {"Tags": [{"Key": "x", "Value": "x"}] * 2}}, "Duplicate tag keys"),
    "a capability": ({"given": {"Capabilities": ["IAM"]}}, "at 'capabilities.1.member' .* enum value set"),
    "a token": ({"given": {"ClientRequestToken": "a b"}}, "at 'clientRequestToken' .* pattern"),
    "a type that the caller rules out": (
        {"given": {"ResourceTypes": ["AWS::EC2::*"]}}, "AWS::SSM::Parameter is not allowed by parameter ResourceTypes"),
    "Fn::Equals of three": ({"Conditions": {"C": {"Fn::Equals": ["a", "b", "c"]}}}, "Fn::Equals is malformed"),
    "Fn::Or of one": ({"Conditions": {"C": {"Fn::Or": [{"Fn::Equals": ["a", "b"]}]}}}, "at least 2 and at most 10"),
    "Fn::Sub of a number": ({"resources": one(Properties={"Type": "String", "Value": {"Fn::Sub": 5}})}, "malformed"),
    "an address that is not S3's": (
        {"given": {"TemplateBody": None, "TemplateURL": "https://example.com/x"}}, "must be a supported URL"),
    "a macro": ({"Transform": "AWS::Serverless-2016-10-31"}, r"Requires capabilities : \[CAPABILITY_AUTO_EXPAND\]"),
    "a stack policy": ({"given": {"StackPolicyBody": "{}"}}, "Invalid stack policy"),
    "both bodies": ({"given": {"TemplateURL": "https://x"}}, "may not be specified together"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_request_creates_nothing(service: Service, create: Act, what: str) -> None:
    asked, words = REFUSED[what]
    with pytest.raises(CloudFormationError, match=words):
        create(**asked)
    assert service.stacks(REGION) == []


def test_a_change_sets_name_must_match_its_pattern(service: Service) -> None:
    given = {"StackName": "S", "ChangeSetName": "my_set", "TemplateBody": json.dumps({"Resources": ONE})}
    with pytest.raises(ValidationError, match="at 'changeSetName'"):
        change_set_actions.create_change_set(service, REGION, {**given, "ChangeSetType": "CREATE"})
    assert service.stacks(REGION) == []


def test_validate_template_knows_the_types_of_aws_and_no_others(service: Service) -> None:
    foreign = {"TemplateBody": json.dumps({"Resources": {"F": {"Type": "AWS::Lambda::Function"}}})}
    assert "Parameters" in inspect_actions.validate_template(service, REGION, foreign)
    wrong = {"TemplateBody": json.dumps({"Resources": {"F": {"Type": "AWS::Lambda::Funktion"}}})}
    with pytest.raises(ValidationError, match="Unrecognized resource types"):
        inspect_actions.validate_template(service, REGION, wrong)


WRONG = {"Q": {"Type": PARAMETER, "Properties": {"Type": "Text", "Colour": "red"}}}
EXPLAINED = (
    "Properties validation failed for resource Q with message:\n#: required key [Value] not found\n"
    "#/Type: Text is not a valid enum value\n#: extraneous key [Colour] is not permitted"
)


def reasons(stack: Stack) -> list[str]:
    return [event.reason or "" for event in stack.events if event.status.endswith("_FAILED")]


def test_a_property_that_the_schema_forbids_fails_the_stack_before_anything_is_made(create: Act) -> None:
    stack = create({**ONE, **WRONG})
    assert (stack.status, Kept.made) == ("ROLLBACK_COMPLETE", [])
    (reason,) = reasons(stack)
    assert sorted(reason.splitlines()) == sorted(EXPLAINED.splitlines())


def test_a_property_that_the_schema_forbids_fails_the_change_set(service: Service) -> None:
    body = json.dumps({"Resources": {**ONE, **WRONG}})
    given = {"StackName": "S", "ChangeSetName": "c", "TemplateBody": body}
    change_set_actions.create_change_set(service, REGION, {**given, "ChangeSetType": "CREATE"})
    found = change_set_actions.describe_change_set(service, REGION, given)
    assert (found["Status"], found["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    assert "extraneous key [Colour] is not permitted" in found["StatusReason"]


def test_a_property_that_the_schema_forbids_fails_an_update_that_changes_nothing(create: Act, update: Act) -> None:
    create()
    Kept.made.clear()
    stack = update({"P": {**ONE["P"], "Properties": {"Type": "String", "Value": "y"}}, **WRONG})
    assert (stack.status, Kept.made) == ("UPDATE_ROLLBACK_COMPLETE", [])
    assert stack.resources["P"].properties["Value"] == "x"
    assert set(stack.resources) == {"P"}


def test_the_type_of_a_resource_cannot_change(create: Act, update: Act) -> None:
    create()
    with pytest.raises(ValidationError, match=r"Update of resource type is not permitted\. .* \[P\]"):
        update({"P": {"Type": "AWS::EC2::SecurityGroup", "Properties": {"GroupDescription": "x"}}})


def test_a_resource_with_a_custom_name_cannot_be_replaced(create: Act, update: Act) -> None:
    named = {"Type": "String", "Value": "x", "Name": "mine"}
    create({"P": {"Type": PARAMETER, "Properties": named}})
    stack = update({"P": {"Type": PARAMETER, "Properties": {**named, "Type": "StringList"}}})
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource requires replacing. Rename mine" in reasons(stack)[0]


def policy(effect: str, action: str, **more: Any) -> str:
    statement = {"Effect": effect, "Action": action, "Principal": "*", "Resource": "*", **more}
    return json.dumps({"Statement": [statement]})


CHANGED = {"P": {**ONE["P"], "Properties": {"Type": "String", "Value": "y"}}}


def test_a_stack_policy_denies_what_it_does_not_allow(service: Service, create: Act, update: Act) -> None:
    create(given={"StackPolicyBody": policy("Allow", "Update:Modify", Resource="LogicalResourceId/Other")})
    stack = update(CHANGED)
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert "does not allow [Update:Modify] for resource [LogicalResourceId/P]" in reasons(stack)[0]
    allowed = update(CHANGED, given={"StackPolicyDuringUpdateBody": policy("Allow", "Update:*")})
    assert (allowed.status, allowed.resources["P"].properties["Value"]) == ("UPDATE_COMPLETE", "y")
    only = {"StringEquals": {"ResourceType": [PARAMETER]}}
    stack_actions.set_stack_policy(service, REGION, {"StackName": "S", "StackPolicyBody": json.dumps(
        {"Statement": [json.loads(policy("Allow", "Update:*"))["Statement"][0],
                       json.loads(policy("Deny", "Update:Delete", Condition=only))["Statement"][0]]})})  # fmt: skip
    stack = update({"Q": ONE["P"]})
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert set(stack.resources) == {"P"}


def exported(value: str, name: str = "shared") -> dict[str, Any]:
    return {"O": {"Value": value, "Export": {"Name": name}}}


def test_an_exports_name_is_unique_and_an_imported_export_cannot_be_deleted(create: Act, update: Act) -> None:
    create(Outputs=exported("1"))
    second = create(name="T", Outputs=exported("2"))
    assert second.status == "ROLLBACK_COMPLETE"
    assert any("Export with name shared is already exported by stack S." in str(e.reason) for e in second.events)
    importing = {"P": {**ONE["P"], "Properties": {"Type": "String", "Value": {"Fn::ImportValue": "shared"}}}}
    create(importing, name="U")
    for outputs, words in ((exported("3"), "cannot be updated"), ({}, "cannot be deleted")):
        stack = update(CHANGED, Outputs=outputs)
        assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
        assert any(f"Export shared {words} as it is in use by U" in str(event.reason) for event in stack.events)
        assert [output.value for output in stack.outputs] == ["1"]
