"""What updates of AWS::EC2::Instance do to the instance: nothing, a stop and a start, or a replacement.

The expectations are CloudFormation's own schema: createOnlyProperties replace; instance type and user data are
conditionalCreateOnlyProperties, which stop and start an instance whose root is an EBS volume.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.testing import patience
from localcloud.testing.place import Place

BODY = """
Resources:
  Group: {{Type: AWS::EC2::SecurityGroup, Properties: {{GroupDescription: other, VpcId: {vpc}}}}}
  Node:
    Type: AWS::EC2::Instance
    Properties:
      ImageId: {image}
      SubnetId: {subnet}
      {properties}
Outputs:
  Id: {{Value: !Ref Node}}
"""


class Stack:
    def __init__(self, place: Place) -> None:
        self.place, self.name = place, "Node"
        self.api = place.cloud.client("cloudformation")

    def apply(self, *properties: str, create: bool = False) -> dict[str, Any]:
        """The instance afterwards."""
        place = self.place
        act = self.api.create_stack if create else self.api.update_stack
        act(StackName=self.name, TemplateBody=self.body(*properties))
        status, outputs = self._settled()
        assert status == ("CREATE_COMPLETE" if create else "UPDATE_COMPLETE")
        (instance,) = place.describe(outputs["Id"])
        return instance

    def body(self, *properties: str) -> str:
        place = self.place
        return BODY.format(
            vpc=place.vpc_id,
            subnet=place.subnet_id,
            image=place.image_id,
            properties="\n      ".join(properties),
        )

    def _settled(self) -> tuple[str, dict[str, str]]:
        deadline = patience.seconds() + 30
        while True:
            (stack,) = self.api.describe_stacks(StackName=self.name)["Stacks"]
            if not stack["StackStatus"].endswith("IN_PROGRESS"):
                return stack["StackStatus"], {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", [])}
            assert patience.seconds() < deadline, stack["StackStatus"]
            time.sleep(0.1)

    def stops(self, instance_id: str) -> int:
        with urllib.request.urlopen(f"{self.place.cloud.endpoint_url}/_localcloud/calls") as answer:
            calls = json.load(answer)
        return sum(call["action"] == "StopInstances" and instance_id in call["instance_ids"] for call in calls)


@pytest.fixture
def stack(place: Place) -> Iterator[Stack]:
    stack = Stack(place)
    yield stack
    (made,) = stack.api.describe_stacks(StackName=stack.name)["Stacks"]
    stack.api.delete_stack(StackName=made["StackId"])
    deadline = patience.seconds() + 30
    while stack.api.describe_stacks(StackName=made["StackId"])["Stacks"][0]["StackStatus"] != "DELETE_COMPLETE":
        assert patience.seconds() < deadline
        time.sleep(0.1)


def test_type_and_user_data_stop_and_start_the_same_instance(stack: Stack, place: Place) -> None:
    made = stack.apply("InstanceType: m5.large", "UserData: IyEvYmluL3No", create=True)
    larger = stack.apply("InstanceType: m5.xlarge", "UserData: IyEvYmluL2Jhc2g=")
    assert (larger["InstanceId"], larger["InstanceType"]) == (made["InstanceId"], "m5.xlarge")
    assert larger["State"]["Name"] == "running"
    assert larger["PrivateIpAddress"] == made["PrivateIpAddress"]
    given = place.ec2.describe_instance_attribute(InstanceId=made["InstanceId"], Attribute="userData")
    assert given["UserData"]["Value"] == "IyEvYmluL2Jhc2g="
    assert stack.stops(made["InstanceId"]) == 1


@pytest.mark.parametrize(
    "changed",
    [
        "DisableApiTermination: false",
        "Tags: [{Key: a, Value: b}]",
        "SecurityGroupIds: [!Ref Group]",
        "SourceDestCheck: false",
        "InstanceInitiatedShutdownBehavior: terminate",
        "MetadataOptions: {HttpTokens: required}",
    ],
)
def test_properties_that_change_without_a_stop(stack: Stack, changed: str) -> None:
    made = stack.apply("InstanceType: m5.large", create=True)
    after = stack.apply("InstanceType: m5.large", changed)
    assert after["InstanceId"] == made["InstanceId"]
    assert stack.stops(made["InstanceId"]) == 0


def test_termination_protection_changes_in_place(stack: Stack, place: Place) -> None:
    made = stack.apply("DisableApiTermination: true", create=True)
    stack.apply("DisableApiTermination: false")
    lifted = place.ec2.describe_instance_attribute(InstanceId=made["InstanceId"], Attribute="disableApiTermination")
    assert lifted["DisableApiTermination"]["Value"] is False


@pytest.mark.parametrize(
    ("changed", "replacement"),
    [
        ("InstanceType: m5.xlarge", "Conditional"),
        ("UserData: IyEvYmluL3No", "Conditional"),
        ("DisableApiTermination: false", "False"),
        ("CpuOptions: {CoreCount: 1, ThreadsPerCore: 1}", "True"),
    ],
)
def test_change_sets_say_what_may_replace(stack: Stack, changed: str, replacement: str) -> None:
    stack.apply(create=True)
    made = stack.api.create_change_set(StackName=stack.name, ChangeSetName="look", TemplateBody=stack.body(changed))
    changes = stack.api.describe_change_set(ChangeSetName=made["Id"])["Changes"]
    stack.api.delete_change_set(ChangeSetName=made["Id"])
    found = {each["ResourceChange"]["LogicalResourceId"]: each["ResourceChange"]["Replacement"] for each in changes}
    assert found == {"Node": replacement}


DISK = "BlockDeviceMappings: [{{DeviceName: /dev/sdf, Ebs: {{VolumeSize: {size}, DeleteOnTermination: {ends}}}}}]"


@pytest.mark.parametrize(("change", "same"), [({"ends": "false"}, True), ({"size": 2}, False)])
def test_only_delete_on_termination_of_disks_changes_in_place(
    stack: Stack, place: Place, change: dict[str, Any], same: bool
) -> None:
    made = stack.apply(DISK.format(**{"size": 1, "ends": "true"}), create=True)
    after = stack.apply(DISK.format(**{"size": 1, "ends": "true"} | change))
    assert (after["InstanceId"] == made["InstanceId"]) is same
    (disk,) = [m["Ebs"] for m in after["BlockDeviceMappings"] if m["DeviceName"] == "/dev/sdf"]
    assert disk["DeleteOnTermination"] is not same
    if same:
        place.ec2.modify_instance_attribute(
            InstanceId=made["InstanceId"],
            BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"DeleteOnTermination": True}}],
        )


def test_properties_that_replace_the_instance(stack: Stack, place: Place) -> None:
    made = stack.apply("InstanceType: m5.large", create=True)
    after = stack.apply("InstanceType: m5.large", "CpuOptions: {CoreCount: 1, ThreadsPerCore: 1}")
    assert after["InstanceId"] != made["InstanceId"]
    place.await_state("terminated", made["InstanceId"])
