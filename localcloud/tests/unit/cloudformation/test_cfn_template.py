"""Templates, intrinsic functions and parameters of the local CloudFormation."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.cloudformation import parameters, template
from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.intrinsics import NO_VALUE, UNKNOWN, Scope, contains_unknown, resolve
from localcloud.cloudformation.parameters import ParameterValue

ATTRIBUTES = {("Vpc", "CidrBlock"): "10.0.0.0/16", ("Later", "Arn"): UNKNOWN, ("Lt", "Version.Latest"): "3"}
REFERENCES = {"Vpc": "vpc-1", "Later": UNKNOWN}


def _scope() -> Scope:
    return Scope(
        parameters={"AWS::Region": "us-east-1", "Name": "web", "Zones": ["a", "b"]},
        mappings={"Sizes": {"us-east-1": {"small": "m6i.large"}}},
        conditions={"Yes": {"Fn::Equals": [{"Ref": "Name"}, "web"]}, "No": {"Fn::Not": [{"Condition": "Yes"}]}},
        reference=REFERENCES.__getitem__,
        attribute=lambda name, key: ATTRIBUTES[name, key],
        imported=lambda name: f"imported {name}",
        zones=lambda region: [f"{region}a", f"{region}b"],
        dynamic=lambda text: text.replace("{{resolve:ssm:/x}}", "found"),
    )


RESOLVED: list[tuple[Any, Any]] = [
    ({"Ref": "Vpc"}, "vpc-1"),
    ({"Ref": "AWS::Region"}, "us-east-1"),
    ({"Ref": "AWS::NoValue"}, NO_VALUE),
    ({"a": {"Ref": "AWS::NoValue"}, "b": [1, {"Ref": "AWS::NoValue"}]}, {"b": [1]}),
    ({"Fn::GetAtt": ["Vpc", "CidrBlock"]}, "10.0.0.0/16"),
    ({"Fn::GetAtt": "Lt.Version.Latest"}, "3"),
    (
        {"Fn::Sub": "${Name}.${AWS::Region} ${Vpc.CidrBlock} ${!Literal} $HOME"},
        "web.us-east-1 10.0.0.0/16 ${Literal} $HOME",
    ),
    ({"Fn::Sub": ["${a}-${Name}", {"a": {"Ref": "Vpc"}}]}, "vpc-1-web"),
    ({"Fn::Join": ["-", ["a", {"Ref": "Name"}, 3, True]]}, "a-web-3-true"),
    ({"Fn::Select": ["1", {"Fn::Split": [",", "a,b,c"]}]}, "b"),
    ({"Fn::Select": [0, {"Fn::GetAZs": ""}]}, "us-east-1a"),
    ({"Fn::GetAZs": "eu-west-1"}, ["eu-west-1a", "eu-west-1b"]),
    ({"Fn::If": ["Yes", "t", "f"]}, "t"),
    ({"Fn::If": ["No", "t", {"Ref": "AWS::NoValue"}]}, NO_VALUE),
    ({"Fn::And": [{"Condition": "Yes"}, {"Fn::Equals": ["1", 1]}]}, True),
    ({"Fn::Or": [{"Condition": "No"}, {"Fn::Equals": [True, "true"]}]}, True),
    ({"Fn::Contains": [["1", "2"], "3"]}, False),
    ({"Fn::FindInMap": ["Sizes", {"Ref": "AWS::Region"}, "small"]}, "m6i.large"),
    ({"Fn::FindInMap": ["Sizes", "mars", "small", {"DefaultValue": "none"}]}, "none"),
    ({"Fn::Base64": {"Fn::Sub": "hi ${Name}"}}, "aGkgd2Vi"),
    ({"Fn::Cidr": ["10.0.0.0/16", 2, "8"]}, ["10.0.0.0/24", "10.0.1.0/24"]),
    ({"Fn::Select": [1, {"Fn::Cidr": [{"Fn::GetAtt": ["Vpc", "CidrBlock"]}, 2, 4]}]}, "10.0.0.16/28"),
    ({"Fn::ImportValue": {"Fn::Sub": "${Name}-vpc"}}, "imported web-vpc"),
    ({"Fn::Length": {"Ref": "Zones"}}, 2),
    ({"Fn::Join": ["", ["{{resolve:", "ssm:/x}}!"]]}, "found!"),
    ({"Condition": {"StringEquals": {"a": "b"}}}, {"Condition": {"StringEquals": {"a": "b"}}}),
]


@pytest.mark.parametrize(("value", "expected"), RESOLVED, ids=lambda value: str(value)[:50])
def test_intrinsic_functions(value: Any, expected: Any) -> None:
    assert resolve(value, _scope()) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"Ref": "Later"},
        {"Fn::Join": [",", [{"Ref": "Later"}]]},
        {"Fn::Sub": "x ${Later.Arn}"},
        {"Fn::Base64": {"Fn::Sub": "${Later}"}},
        {"a": [{"b": {"Fn::Split": [",", {"Ref": "Later"}]}}]},
    ],
)
def test_values_that_depend_on_an_unknown_value_are_unknown(value: Any) -> None:
    assert contains_unknown(resolve(value, _scope()))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"Fn::Transform": {}}, "Fn::Transform is not supported"),
        ({"Fn::Select": [5, ["a"]]}, "nonexistent value at index 5"),
        ({"Fn::FindInMap": ["Sizes", "mars", "small"]}, "Unable to get mapping for Sizes::mars::small"),
        ({"Fn::If": ["Missing", 1, 2]}, "unresolved condition dependency Missing"),
        ({"Fn::Cidr": ["10.0.0.0/24", 4, 7]}, "cannot cut 4"),
    ],
)
def test_faulty_functions(value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        resolve(value, _scope())


YAML = """
Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument: {Version: 2012-10-17}
      Name: !Sub "${Vpc.CidrBlock}-x"
      Arn: !GetAtt Vpc.Arn.More
      Pick: !If [Wide, !Ref Vpc, !Ref "AWS::NoValue"]
  Vpc: {Type: AWS::EC2::VPC}
"""


def test_yaml_short_tags_and_dates_as_text() -> None:
    properties = template.parse(YAML).resources["Role"]["Properties"]
    assert properties == {
        "AssumeRolePolicyDocument": {"Version": "2012-10-17"},
        "Name": {"Fn::Sub": "${Vpc.CidrBlock}-x"},
        "Arn": {"Fn::GetAtt": ["Vpc", "Arn.More"]},
        "Pick": {"Fn::If": ["Wide", {"Ref": "Vpc"}, {"Ref": "AWS::NoValue"}]},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON or YAML"),
        ("[]", "unsupported structure"),
        ("{}", "At least one Resources member"),
        ('{"Resources": {"A": {}}}', "must contain a Type member"),
        ('{"Resources": {"A_b": {"Type": "X"}}}', "non alphanumeric"),
        ('{"Ressources": {}}', "Invalid template property"),
        ('{"Transform": "AWS::Serverless-2016-10-31", "Resources": {"A": {"Type": "X"}}}', "Transform"),
        (
            '{"Resources": {"A": {"Type": "X", "Properties": {"p": {"Ref": "B"}}}}}',
            r"dependencies \[B\] in the Resources",
        ),
        (
            '{"Resources": {"A": {"Type": "X"}}, "Outputs": {"O": {"Value": {"Fn::Sub": "${C.Arn}"}}}}',
            r"\[C\] in the Outputs",
        ),
    ],
)
def test_faulty_templates(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        template.parse(text)


def _parse(**declared: dict[str, Any]) -> template.Template:
    return template.Template(text="", resources={"A": {"Type": "X"}}, parameters=declared)


def test_a_previous_ssm_parameter_is_read_again() -> None:
    declared = _parse(Image={"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "Default": "/ami"})
    previous = {"Image": ParameterValue("/other", "ami-old", from_ssm=True)}
    given = [{"ParameterKey": "Image", "UsePreviousValue": True}]
    values = parameters.resolve_all(declared, given, previous, {"/other": "ami-new"}.get)
    assert values["Image"] == ParameterValue("/other", "ami-new", from_ssm=True)


@pytest.mark.parametrize(
    ("declaration", "given", "expected"),
    [
        ({"Type": "CommaDelimitedList", "Default": "a, b"}, None, ["a", "b"]),
        ({"Type": "Number", "Default": 3}, None, "3"),
        ({"Type": "String", "Default": True}, None, "true"),
        ({"Type": "List<Number>"}, "1,2", ["1", "2"]),
        ({"Type": "String", "Default": ""}, None, ""),
    ],
)
def test_parameter_values(declaration: dict[str, Any], given: str | None, expected: Any) -> None:
    entries = [] if given is None else [{"ParameterKey": "P", "ParameterValue": given}]
    assert parameters.resolve_all(_parse(P=declaration), entries, {}, lambda name: None)["P"].value == expected


@pytest.mark.parametrize(
    ("declaration", "given", "message"),
    [
        ({"Type": "String"}, None, r"\[P\] must have values"),
        ({"Type": "String", "AllowedValues": ["a"]}, "b", "AllowedValues"),
        ({"Type": "String", "AllowedPattern": "[a-z]+"}, "B", "match pattern"),
        ({"Type": "Number", "MaxValue": 4}, "5", "from -inf to 4"),
        ({"Type": "Number"}, "five", "be a number"),
        ({"Type": "AWS::SSM::Parameter::Value<String>"}, "/none", r"Unable to fetch parameters \[/none\]"),
    ],
)
def test_refused_parameters(declaration: dict[str, Any], given: str | None, message: str) -> None:
    entries = [] if given is None else [{"ParameterKey": "P", "ParameterValue": given}]
    with pytest.raises(ValidationError, match=message):
        parameters.resolve_all(_parse(P=declaration), entries, {}, lambda name: None)


def test_parameters_that_the_template_does_not_have() -> None:
    with pytest.raises(ValidationError, match=r"\[Q\] do not exist in the template"):
        parameters.resolve_all(_parse(), [{"ParameterKey": "Q", "ParameterValue": "1"}], {}, lambda name: None)
