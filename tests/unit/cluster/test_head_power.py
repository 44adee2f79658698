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

from gpucluster.cluster import head_power
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
