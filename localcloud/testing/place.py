"""A VPC to launch into, with helpers for its instances."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing import patience

DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
ZONE = "us-east-1a"

_WHO = {"Service": "ec2.amazonaws.com", "AWS": "arn:aws:iam::123456789012:root"}
TRUST = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": _WHO, "Action": "sts:AssumeRole"}]}
)
"""A role that instances have, and that this account may assume."""


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


@dataclass(frozen=True)
class Place:
    """A VPC to launch into."""

    cloud: Any
    ec2: Any
    vpc_id: str
    subnet_id: str
    group_id: str
    image_id: str

    def run(self, **request: Any) -> list[str]:
        launch = {"ImageId": self.image_id, "InstanceType": "m5.large", "SubnetId": self.subnet_id, "MinCount": 1}
        if "NetworkInterfaces" in request:
            del launch["SubnetId"]  # each interface names the subnet, and EC2 refuses both
        reservation = self.ec2.run_instances(**({"MaxCount": 1} | launch | request))
        return [instance["InstanceId"] for instance in reservation["Instances"]]

    def describe(self, *ids: str) -> list[dict[str, Any]]:
        found = self.ec2.describe_instances(InstanceIds=list(ids))["Reservations"]
        return [instance for reservation in found for instance in reservation["Instances"]]

    def await_state(self, state: str, *ids: str) -> None:
        deadline = patience.seconds() + 10
        while {instance["State"]["Name"] for instance in self.describe(*ids)} != {state}:
            assert patience.seconds() < deadline, f"{ids} never became {state}"
            time.sleep(0.05)

    def efa(self, count: int, **more: Any) -> list[dict[str, Any]]:
        where = {"SubnetId": self.subnet_id, "Groups": [self.group_id]}
        return [
            {"DeviceIndex": min(card, 1), "NetworkCardIndex": card, "InterfaceType": "efa"} | where | more
            for card in range(count)
        ]

    def template(self, name: str, **data: Any) -> str:
        made = self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def fleet(self, template_id: str, count: int, *overrides: dict[str, Any], **request: Any) -> dict[str, Any]:
        configs = {
            "LaunchTemplateSpecification": {"LaunchTemplateId": template_id, "Version": "1"},
            "Overrides": list(overrides),
        }
        capacity = {"TotalTargetCapacity": count, "DefaultTargetCapacityType": "on-demand"}
        answer: dict[str, Any] = self.ec2.create_fleet(
            **(
                {"Type": "instant", "TargetCapacitySpecification": capacity, "LaunchTemplateConfigs": [configs]}
                | request
            )
        )
        return answer


@contextmanager
def made(control_plane: Any) -> Iterator[Place]:
    """A separate place, which is removed afterwards."""
    ec2 = control_plane.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.0.0.0/20", AvailabilityZone=ZONE)["Subnet"]
    group_id = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc_id)["GroupId"]
    image_id = control_plane.client("ssm").get_parameter(Name=DLAMI)["Parameter"]["Value"]
    place = Place(control_plane, ec2, vpc_id, subnet["SubnetId"], group_id, image_id)
    yield place
    left = ec2.describe_instances(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["Reservations"]
    ids = [i["InstanceId"] for r in left for i in r["Instances"] if i["State"]["Name"] != "terminated"]
    if ids:
        ec2.terminate_instances(InstanceIds=ids)
        place.await_state("terminated", *ids)
    assert ec2.describe_network_interfaces(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["NetworkInterfaces"] == []
    for template in ec2.describe_launch_templates()["LaunchTemplates"]:
        ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])
    ec2.delete_security_group(GroupId=group_id)
    ec2.delete_subnet(SubnetId=place.subnet_id)
    ec2.delete_vpc(VpcId=vpc_id)


def reserved(reservation_id: str) -> dict[str, Any]:
    """The part of a launch that names a capacity reservation."""
    return {
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": reservation_id}}
    }
