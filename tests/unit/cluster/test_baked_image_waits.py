"""Waiting for an image that EC2 makes: which states are final, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from botocore.stub import Stubber

from gpucluster.baking import bake
from gpucluster.errors import CloudError

IMAGE = "ami-0bbbbbbbbbbbbbbbb"


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    monkeypatch.setattr(bake, "POLL_S", 0.0)
    client = boto3.client("ec2", "us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def answer(ec2: Stubber, state: str, reason: str = "") -> None:
    image = {"ImageId": IMAGE, "State": state} | ({"StateReason": {"Message": reason}} if reason else {})
    ec2.add_response("describe_images", {"Images": [image]}, {"ImageIds": [IMAGE]})


def test_an_image_becomes_available(ec2: Stubber) -> None:
    for state in ("pending", "transient", "available"):
        answer(ec2, state)
    bake.wait_for(ec2.client, IMAGE)


@pytest.mark.parametrize("state", ["failed", "error", "invalid", "deregistered", "disabled"])
def test_every_final_state_ends_the_wait(ec2: Stubber, state: str) -> None:
    """ImageState of EC2's API; boto3's waiter knows `failed` only."""
    answer(ec2, "pending")
    answer(ec2, state, "Client.InternalError: Client error")
    with pytest.raises(CloudError, match=f"it is {state}: Client.InternalError: Client error"):
        bake.wait_for(ec2.client, IMAGE)


def test_an_image_that_is_gone_ends_the_wait(ec2: Stubber) -> None:
    ec2.add_response("describe_images", {"Images": []}, {"ImageIds": [IMAGE]})
    with pytest.raises(CloudError, match="it is gone"):
        bake.wait_for(ec2.client, IMAGE)
