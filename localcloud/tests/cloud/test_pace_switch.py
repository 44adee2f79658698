"""A running cloud is switched to AWS's pace and back; stacks succeed despite AWS's delays."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localcloud.testing.place import Place

SCALE = 0.02
ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        }
    },
}


@pytest.fixture
def slow(own: Callable[..., Any]) -> Iterator[None]:
    assert own("POST", "pace", {"pace": "aws", "scale": SCALE}) == {"pace": "aws", "scale": SCALE, "throttled": 0}
    yield
    assert own("DELETE", "pace") == {"pace": "off"}


def test_an_instance_is_pending_for_as_long_as_its_type_takes(
    place: Place, slow: None, own: Callable[..., Any]
) -> None:
    (instance_id,) = place.run(InstanceType="c5.metal")
    time.sleep(1)  # quick, it runs after 0.2 s
    assert [each["State"]["Name"] for each in place.describe(instance_id)] == ["pending"]
    own("DELETE", "pace")
    place.await_state("running", instance_id)
    own("POST", "pace", {"pace": "aws", "scale": SCALE})


def test_a_stack_waits_for_its_instance_profile_and_its_instance(place: Place, slow: None) -> None:
    node = {
        "ImageId": place.image_id, "InstanceType": "c5.large", "SubnetId": place.subnet_id,
        "IamInstanceProfile": {"Ref": "Profile"}, "SourceDestCheck": False,
    }  # fmt: skip
    resources = {
        "Role": ROLE,
        "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "Role"}]}},
        "Node": {"Type": "AWS::EC2::Instance", "Properties": node},
    }
    cloudformation, name = place.cloud.client("cloudformation"), "slow"
    body = json.dumps({"Resources": resources})
    cloudformation.create_stack(StackName=name, TemplateBody=body, Capabilities=["CAPABILITY_IAM"])
    fast = {"Delay": 1, "MaxAttempts": 60}
    cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig=fast)
    cloudformation.delete_stack(StackName=name)
    cloudformation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig=fast)


def test_an_unknown_pace_is_refused(own: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match="400"):
        own("POST", "pace", {"pace": "snail"})
    assert own("GET", "pace") == {"pace": "off"}
