"""CloudFormation's API as boto3 sees it, and wait handles, without a network."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from werkzeug import Request
from werkzeug.test import EnvironBuilder

from localcloud.cloudformation import api, waits
from localcloud.cloudformation.change_set_actions import create_change_set
from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.model import Stack
from localcloud.cloudformation.service import Service
from localcloud.testing import patience

METADATA = {"Resources": {"M": {"Type": "AWS::CDK::Metadata", "Properties": {"Analytics": "a"}}}}
WAITING = {
    "Resources": {
        "Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "Wait": {
            "Type": "AWS::CloudFormation::WaitCondition",
            "Properties": {"Handle": {"Ref": "Handle"}, "Timeout": "5", "Count": 1},
        },
    },
    "Outputs": {"Data": {"Value": {"Fn::GetAtt": ["Wait", "Data"]}}},
}


class _Raw(io.BytesIO):
    def stream(self) -> Iterator[bytes]:
        yield self.read()


@pytest.fixture
def client() -> Any:
    """A boto3 client whose requests go straight to `handle`."""
    service = Service(lambda name, region: pytest.fail(f"no AWS here: {name}"))
    made = boto3.client("cloudformation", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")

    def answer(request: Any, **_: Any) -> AWSResponse:
        texts = {key: value if isinstance(value, str) else value.decode() for key, value in request.headers.items()}
        builder = EnvironBuilder(method=request.method, headers=texts, data=request.body)
        response = api.handle(Request(builder.get_environ()), service)
        return AWSResponse(request.url, response.status_code, dict(response.headers), _Raw(response.get_data()))

    made.meta.events.register("before-send.cloudformation.*", answer)
    return made


def _wait(client: Any, name: str, status: str) -> dict[str, Any]:
    deadline = patience.seconds() + 10
    while patience.seconds() < deadline:
        stack: dict[str, Any] = client.describe_stacks(StackName=name)["Stacks"][0]
        if stack["StackStatus"] == status:
            return stack
        time.sleep(0.02)
    raise AssertionError(f"{name} is {stack['StackStatus']}: {stack.get('StackStatusReason')}")


def _refusal(call: Any, **given: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**given)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


def test_a_stack_by_way_of_a_change_set(client: Any) -> None:
    made = client.create_change_set(
        StackName="S",
        ChangeSetName="first",
        ChangeSetType="CREATE",
        TemplateBody=json.dumps(METADATA),
        Tags=[{"Key": "owner", "Value": "me"}],
    )
    change_set = client.describe_change_set(ChangeSetName=made["Id"])
    assert change_set["Changes"][0]["ResourceChange"]["LogicalResourceId"] == "M"
    assert change_set["ExecutionStatus"] == "AVAILABLE"
    client.execute_change_set(ChangeSetName=made["Id"])
    stack = _wait(client, "S", "CREATE_COMPLETE")
    assert stack["StackId"].startswith("arn:aws:cloudformation:eu-west-1:123456789012:stack/S/")
    assert stack["Tags"] == [{"Key": "owner", "Value": "me"}]
    assert client.get_template(StackName="S")["TemplateBody"] == METADATA
    assert [
        item["ResourceStatus"] for item in client.list_stack_resources(StackName="S")["StackResourceSummaries"]
    ] == ["CREATE_COMPLETE"]
    statuses = [(event["LogicalResourceId"], event["ResourceStatus"]) for event in _events(client, "S")]
    assert statuses == [
        ("S", "CREATE_COMPLETE"),
        ("M", "CREATE_COMPLETE"),
        ("M", "CREATE_IN_PROGRESS"),
        ("S", "CREATE_IN_PROGRESS"),
        ("S", "REVIEW_IN_PROGRESS"),
    ]


def test_two_change_sets_at_once_for_a_new_stack_make_one_stack() -> None:
    class Slow(Service):
        def add(self, region: str, name: str) -> Stack:
            time.sleep(0.1)
            return super().add(region, name)

    service = Slow(lambda name, region: pytest.fail(f"no AWS here: {name}"))
    given = {"StackName": "S", "ChangeSetType": "CREATE", "TemplateBody": json.dumps(METADATA)}
    with ThreadPoolExecutor() as pool:
        made = list(
            pool.map(
                lambda name: create_change_set(service, "eu-west-1", {**given, "ChangeSetName": name}),
                ("first", "second"),
            )
        )
    (stack,) = service.stacks("eu-west-1")
    assert {each["StackId"] for each in made} == {stack.stack_id}
    assert set(stack.change_sets) == {"first", "second"}


def _events(client: Any, name: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = client.describe_stack_events(StackName=name)["StackEvents"]
    times = [event["Timestamp"] for event in events]
    assert times == sorted(times, reverse=True)
    assert len({int(time.timestamp() * 1000) for time in times}) == len(times)
    return events


def test_errors_have_awss_messages(client: Any) -> None:
    assert _refusal(client.describe_stacks, StackName="No") == (
        "ValidationError",
        "Stack with id No does not exist",
    )
    assert _refusal(client.describe_stack_events, StackName="No") == ("ValidationError", "Stack [No] does not exist")
    assert _refusal(client.create_stack, StackName="S", TemplateBody="{}")[0] == "ValidationError"
    role = {"Resources": {"R": {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "r"}}}}
    assert _refusal(client.create_stack, StackName="S", TemplateBody=json.dumps(role)) == (
        "InsufficientCapabilitiesException",
        "Requires capabilities : [CAPABILITY_NAMED_IAM]",
    )
    assert client.list_stacks()["StackSummaries"] == []
    assert _refusal(client.detect_stack_drift, StackName="S")[0] == "UnsupportedOperation"
    assert "CreateStackSet is not supported" in _refusal(client.create_stack_set, StackSetName="S")[1]
    assert _refusal(client.describe_change_set, ChangeSetName="arn:no")[0] == "ChangeSetNotFound"
    client.delete_stack(StackName="No")


def test_a_stack_name_can_be_used_only_once(client: Any) -> None:
    client.create_stack(StackName="S", TemplateBody=json.dumps(METADATA))
    _wait(client, "S", "CREATE_COMPLETE")
    code, message = _refusal(client.create_stack, StackName="S", TemplateBody=json.dumps(METADATA))
    assert (code, message) == ("AlreadyExistsException", "Stack [S] already exists")


def _handle(client: Any, name: str) -> str:
    deadline = patience.seconds() + 10
    while patience.seconds() < deadline:
        for item in client.describe_stack_resources(StackName=name)["StackResources"]:
            if item["LogicalResourceId"] == "Handle" and item["ResourceStatus"] == "CREATE_COMPLETE":
                return str(item["PhysicalResourceId"])
        time.sleep(0.02)
    raise AssertionError("no handle")


def _put(url: str, body: str, method: str = "PUT") -> int:
    builder = EnvironBuilder(path=url.removeprefix("http://169.254.169.251"), method=method, data=body.encode())
    return waits.handle(Request(builder.get_environ())).status_code


def test_a_wait_condition_takes_the_signals_data(client: Any) -> None:
    client.create_stack(StackName="W", TemplateBody=json.dumps(WAITING))
    url = _handle(client, "W")
    assert url.startswith("http://169.254.169.251/_localcloud/wait/")
    assert _put(url, '{"Status": "SUCCESS", "UniqueId": "a", "Data": "up", "Reason": ""}') == 200
    stack = _wait(client, "W", "CREATE_COMPLETE")
    assert stack["Outputs"][0]["OutputValue"] == '{"a": "up"}'


def test_a_failure_signal_fails_the_stack_with_its_reason(client: Any) -> None:
    client.create_stack(StackName="W", TemplateBody=json.dumps(WAITING))
    reason = "step=slurm line=42: no <munge> key"
    assert _put(_handle(client, "W"), json.dumps({"Status": "FAILURE", "UniqueId": "head", "Reason": reason})) == 200
    _wait(client, "W", "ROLLBACK_COMPLETE")
    failed = [event for event in _events(client, "W") if event["ResourceStatus"] == "CREATE_FAILED"]
    assert failed[0]["ResourceStatusReason"] == (
        f"WaitCondition received failed message: '{reason}' for uniqueId: head"
    )


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("PUT", "hello", 400),
        ("PUT", '{"Status": "FINE"}', 400),
        ("PUT", '{"Status": "SUCCESS"}', 404),
        ("GET", "", 405),
    ],
)
def test_invalid_signals_are_refused(method: str, body: str, status: int) -> None:
    assert _put(f"{waits.BASE_URL}unknown", body, method) == status


def test_a_wait_that_nobody_signals_times_out() -> None:
    known = waits.Waits()
    with pytest.raises(ResourceError, match=r"timed out\. Received 0 conditions when expecting 1"):
        known.wait(known.new_url(), 1, 0.0, threading.Event())


def test_a_wait_can_be_cancelled_and_counts_each_sender_once() -> None:
    known = waits.Waits()
    url = known.new_url()
    signal = waits.parse(b'{"Status": "SUCCESS", "UniqueId": "a", "Data": {"x": 1}}')
    token = url.rsplit("/", 1)[-1]
    assert known.add(token, signal)
    assert known.add(token, signal)
    cancelled = threading.Event()
    cancelled.set()
    assert known.wait(url, 2, 60.0, cancelled) is None
    assert known.wait(url, 1, 60.0, cancelled) == '{"a": "{\\"x\\": 1}"}'
    known.forget(url)
    assert not known.add(token, signal)
