"""The calls to EC2 that stop and start a head node, from each state. None may be left out, and none is made twice.

EC2 refuses StopInstances while an instance boots: `IncorrectInstanceState … cannot be stopped as it has never reached
the 'running' state` (https://github.com/cloud-custodian/cloud-custodian/pull/6014).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.stub import Stubber

from gpucluster.cluster import head_power, instance_states
from gpucluster.cluster.aws import Head
from gpucluster.errors import CloudError

HEAD = "i-0123456789abcdef0"
STOP, START = "stop_instances", "start_instances"


@pytest.fixture
def ec2() -> Iterator[Stubber]:
    client = boto3.client("ec2", "us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def cloud(ec2: Stubber, state: str, *expected: str) -> Any:
    """`expected`: calls, and states to wait for."""
    for each in expected:
        if each in (STOP, START):
            ec2.add_response(each, {}, {"InstanceIds": [HEAD]})
        else:
            answer = {"Reservations": [{"Instances": [{"InstanceId": HEAD, "State": {"Name": each}}]}]}
            ec2.add_response("describe_instances", answer, {"InstanceIds": [HEAD]})
    return Mock(**{"head.return_value": Head(HEAD, "10.0.0.4", "eice-1", state), "client.return_value": ec2.client})


@pytest.mark.parametrize(
    ("state", "expected", "changed"),
    [
        ("running", (STOP, "stopped"), True),
        ("pending", ("running", STOP, "stopped"), True),
        ("stopping", ("stopped",), False),
        ("stopped", (), False),
    ],
)
def test_stop(ec2: Stubber, state: str, expected: tuple[str, ...], changed: bool) -> None:
    assert head_power.stop(cloud(ec2, state, *expected)) is changed


@pytest.mark.parametrize(
    ("state", "expected", "changed"),
    [
        ("stopped", (START, "running"), True),
        ("stopping", ("stopped", START, "running"), True),
        ("pending", ("running",), False),
        ("running", (), False),
    ],
)
def test_start(ec2: Stubber, state: str, expected: tuple[str, ...], changed: bool) -> None:
    assert head_power.start(cloud(ec2, state, *expected)) is changed


@pytest.mark.parametrize("state", ["terminated", "shutting-down", "gone"])
def test_a_missing_head_is_neither_stopped_nor_started(ec2: Stubber, state: str) -> None:
    for verb in (head_power.stop, head_power.start):
        with pytest.raises(CloudError, match=f"is {state}"):
            verb(cloud(ec2, state))


NO_KEY = {"Code": "Client.InternalError", "Message": "Client.InternalError: Client error on launch"}
"""As in re:Post, "My IAM entity has permissions to start the instance, but it changed from the Pending state to
Stopped" (https://repost.aws/knowledge-center/kms-iam-ec2-permission)."""
FULL = {
    "Code": "Server.InsufficientInstanceCapacity",
    "Message": "Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy instance request",
}


def answers(ec2: Stubber, *states: tuple[str, dict[str, str] | None]) -> None:
    for state, reason in states:
        instance = {"InstanceId": HEAD, "State": {"Name": state}} | ({"StateReason": reason} if reason else {})
        ec2.add_response("describe_instances", {"Reservations": [{"Instances": [instance]}]}, {"InstanceIds": [HEAD]})


@pytest.mark.parametrize(
    ("end", "reason", "hint"),
    [
        ("stopped", NO_KEY, "kms:CreateGrant"),
        ("stopped", FULL, "try again later"),
        ("terminated", None, "console"),
    ],
)
def test_a_head_that_ec2_cannot_start_is_reported_at_once(
    ec2: Stubber, monkeypatch: pytest.MonkeyPatch, end: str, reason: dict[str, str] | None, hint: str
) -> None:
    monkeypatch.setattr(instance_states, "POLL_S", 0.0)
    monkeypatch.setattr(instance_states, "SETTLED_S", 0.0)
    head = cloud(ec2, "stopped", START)
    answers(ec2, ("pending", None), (end, reason))
    with pytest.raises(CloudError) as error:
        head_power.start(head)
    said = (reason or {}).get("Message", "EC2 gives no reason")
    assert str(error.value) == f"{HEAD} is {end}, and not running: {said}"
    assert hint in str(error.value.hint)


def test_an_answer_from_before_the_start_is_not_the_end(ec2: Stubber, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_states, "POLL_S", 0.0)
    head = cloud(ec2, "stopped", START, "stopped", "pending", "running")
    assert head_power.start(head)


def test_a_head_that_never_boots_is_given_up(ec2: Stubber, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_states, "PATIENCE_S", 0.0)
    with pytest.raises(CloudError, match="is still pending after 0 minutes"):
        head_power.start(cloud(ec2, "pending", "pending"))
