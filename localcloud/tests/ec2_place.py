"""A VPC with a subnet and other EC2 resources, for tests of refusals."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localcloud.tests.in_process import InProcess

NOBODY = "0123456789abcdef0"


@dataclass
class Here:
    """A VPC with a subnet."""

    ec2: Any
    vpc_id: str
    subnet_id: str
    image_id: str

    def launch(self, **more: Any) -> Any:
        request = {"ImageId": self.image_id, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
        if "NetworkInterfaces" not in more:
            request["SubnetId"] = self.subnet_id
        return self.ec2.run_instances(**(request | more))

    def nic(self, index: int, card: int = 0, kind: str = "interface", **more: Any) -> dict[str, Any]:
        place = {"DeviceIndex": index, "NetworkCardIndex": card, "SubnetId": self.subnet_id}
        return {**place, "InterfaceType": kind, **more}

    def census(self) -> tuple[int, ...]:
        instances = [i for r in self.ec2.describe_instances()["Reservations"] for i in r["Instances"]]
        interfaces = self.ec2.describe_network_interfaces()["NetworkInterfaces"]
        free = self.ec2.describe_subnets(SubnetIds=[self.subnet_id])["Subnets"][0]["AvailableIpAddressCount"]
        return len(instances), len(interfaces), len(self.ec2.describe_volumes()["Volumes"]), free


Call = Callable[[Here], Any]


def prepared(cloud: InProcess) -> Here:
    ec2 = cloud.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    zone = {"CidrBlock": "10.77.1.0/24", "AvailabilityZone": "us-east-1a"}
    subnet_id = ec2.create_subnet(VpcId=vpc_id, **zone)["Subnet"]["SubnetId"]
    parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
    image_id = cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    return Here(ec2, vpc_id, subnet_id, image_id)


def group(here: Here) -> str:
    name = f"g-{uuid.uuid4().hex}"
    return str(here.ec2.create_security_group(GroupName=name, Description="x", VpcId=here.vpc_id)["GroupId"])


def template(here: Here, **data: Any) -> str:
    name = f"lt-{uuid.uuid4().hex}"
    here.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "m5.large"} | data)
    return name
