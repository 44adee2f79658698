"""What EC2 refuses of any call: ids, filters, tags, ranges, pages; and what a refused launch leaves behind."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from localcloud.ec2.validation import volumes
from localcloud.tests.in_process import InProcess, refusal
from localcloud.validation.refusal import Refusal

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


@pytest.fixture(scope="module")
def here(cloud: InProcess) -> Here:
    ec2 = cloud.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    zone = {"CidrBlock": "10.77.1.0/24", "AvailabilityZone": "us-east-1a"}
    subnet_id = ec2.create_subnet(VpcId=vpc_id, **zone)["Subnet"]["SubnetId"]
    parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
    image_id = cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    return Here(ec2, vpc_id, subnet_id, image_id)


Call = Callable[[Here], Any]
GENERIC: dict[str, tuple[Call, str]] = {
    "token": (lambda h: h.ec2.describe_vpcs(NextToken="bogus"), "InvalidNextToken"),
    "required": (lambda h: h.ec2.create_subnet(CidrBlock="10.77.9.0/24"), "MissingParameter"),
    "enum": (lambda h: h.ec2.create_placement_group(GroupName="x", Strategy="huddle"), "InvalidParameterValue"),
    "range": (lambda h: h.ec2.describe_subnets(MaxResults=3), "InvalidParameterValue"),
    "pages of instances": (lambda h: h.ec2.describe_instances(MaxResults=1001), "InvalidParameterValue"),
    "token of instances": (lambda h: h.ec2.describe_instances(NextToken="bogus"), "InvalidNextToken"),
    "pages and ids": (lambda h: h.ec2.describe_instances(MaxResults=5, InstanceIds=[f"i-{NOBODY}"]),
                      "InvalidParameterCombination"),
    "filter": (lambda h: h.ec2.describe_instances(Filters=[{"Name": "instance-color", "Values": ["red"]}]),
               "InvalidParameterValue"),
    "filter values": (lambda h: h.ec2.describe_vpcs(Filters=[{"Name": "vpc-id", "Values": ["x"] * 201}]),
                      "FilterLimitExceeded"),
    "cidr": (lambda h: h.ec2.create_vpc(CidrBlock="10.0.0.0/99"), "InvalidParameterValue"),
    "number": (lambda h: h.launch(MinCount="many"), "InvalidParameterValue"),
    "malformed instance": (lambda h: h.ec2.terminate_instances(InstanceIds=["banana"]), "InvalidInstanceID.Malformed"),
    "malformed subnet": (lambda h: h.ec2.delete_subnet(SubnetId="vpc-1"), "InvalidSubnetID.Malformed"),
    "no NAT gateway": (lambda h: h.ec2.create_route(RouteTableId=table(h), DestinationCidrBlock="0.0.0.0/0",
                                                    NatGatewayId=f"nat-{NOBODY}"), "InvalidNatGatewayID.NotFound"),
    "no VPC": (lambda h: h.ec2.create_security_group(GroupName="x", Description="x", VpcId=f"vpc-{NOBODY}"),
               "InvalidVpcID.NotFound"),
    "tags of nobody": (lambda h: h.ec2.create_tags(Resources=[f"i-{NOBODY}"], Tags=[{"Key": "a", "Value": "b"}]),
                       "InvalidInstanceID.NotFound"),
    "long tag value": (lambda h: tag(h, {"Key": "a", "Value": "b" * 257}), "InvalidParameterValue"),
    "long tag key": (lambda h: tag(h, {"Key": "a" * 129, "Value": "b"}), "InvalidParameterValue"),
    "reserved tag": (lambda h: tag(h, {"Key": "aws:mine", "Value": "b"}), "InvalidParameterValue"),
    "tag twice": (lambda h: tag(h, {"Key": "a", "Value": "b"}, {"Key": "a", "Value": "c"}), "InvalidParameterValue"),
    "51 tags": (lambda h: tag(h, *({"Key": f"k{n}", "Value": "v"} for n in range(51))), "TagLimitExceeded"),
    "tags of a launch": (lambda h: h.launch(TagSpecifications=[
        {"ResourceType": "instance", "Tags": [{"Key": "aws:mine", "Value": "x"}]}]), "InvalidParameterValue"),
}  # fmt: skip


def tag(here: Here, *tags: dict[str, str]) -> Any:
    return here.ec2.create_tags(Resources=[here.vpc_id], Tags=list(tags))


def table(here: Here) -> str:
    return str(here.ec2.create_route_table(VpcId=here.vpc_id)["RouteTable"]["RouteTableId"])


def volume(here: Here, **more: Any) -> Any:
    return here.ec2.create_volume(AvailabilityZone="us-east-1a", **more)


def group(here: Here) -> str:
    name = f"g-{uuid.uuid4().hex}"
    return str(here.ec2.create_security_group(GroupName=name, Description="x", VpcId=here.vpc_id)["GroupId"])


def admit(here: Here, group_id: str, **permission: Any) -> Any:
    return here.ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=[permission])


def mapped(**ebs: Any) -> dict[str, Any]:
    return {"BlockDeviceMappings": [{"DeviceName": "/dev/sdf", "Ebs": ebs}]}


def template(here: Here, **data: Any) -> str:
    name = f"lt-{uuid.uuid4().hex}"
    here.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "m5.large"} | data)
    return name


def fleet(here: Here, **more: Any) -> Any:
    chosen = {"LaunchTemplateName": template(here), "Version": "$Latest"} | more.pop("chosen", {})
    configs = [{"LaunchTemplateSpecification": {k: v for k, v in chosen.items() if v}, **more.pop("config", {})}]
    capacity = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"}
    return here.ec2.create_fleet(
        Type="instant", TargetCapacitySpecification=capacity, LaunchTemplateConfigs=configs, **more
    )


def spot(**options: Any) -> dict[str, Any]:
    return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": options}}


def endpoint(here: Here, **more: Any) -> Any:
    return here.ec2.create_vpc_endpoint(VpcId=here.vpc_id, ServiceName="com.amazonaws.us-east-1.s3", **more)


LAUNCHES: dict[str, tuple[Call, str]] = {
    "no count": (lambda h: h.launch(MinCount=0, MaxCount=0), "InvalidParameterValue"),
    "counts": (lambda h: h.launch(MinCount=2, MaxCount=1), "InvalidParameterValue"),
    "user data": (lambda h: h.launch(UserData="#!/bin/sh\n" + "x" * 16384), "InvalidParameterValue"),
    "hops": (lambda h: h.launch(MetadataOptions={"HttpPutResponseHopLimit": 65}), "InvalidParameterValue"),
    "tag keys for the metadata service": (
        lambda h: h.launch(MetadataOptions={"InstanceMetadataTags": "enabled"}, TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "my key", "Value": "x"}]}]), "InvalidParameterValue"),
    "cores": (lambda h: h.launch(CpuOptions={"CoreCount": 3, "ThreadsPerCore": 2}), "InvalidParameterValue"),
    "interruption": (lambda h: h.launch(**spot(InstanceInterruptionBehavior="stop")), "InvalidParameterCombination"),
    "price": (lambda h: h.launch(**spot(MaxPrice="0")), "InvalidParameterValue"),
    "hibernation": (lambda h: h.launch(HibernationOptions={"Configured": True}), "UnsupportedHibernationConfiguration"),
    "credits": (lambda h: h.launch(CreditSpecification={"CpuCredits": "unlimited"}), "InvalidParameterCombination"),
    "names of groups": (lambda h: h.launch(SecurityGroups=["default"]), "InvalidParameterCombination"),
    "no device index": (lambda h: h.launch(NetworkInterfaces=[{"SubnetId": h.subnet_id}]), "InvalidParameterValue"),
    "root too small": (lambda h: h.launch(BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 1}}]),
                       "InvalidBlockDeviceMapping"),
    "device twice": (lambda h: h.launch(BlockDeviceMappings=[
        {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1}}] * 2), "InvalidBlockDeviceMapping"),
    "no size": (lambda h: h.launch(**mapped(VolumeType="gp3")), "MissingParameter"),
    "io2 without IOPS": (lambda h: h.launch(**mapped(VolumeSize=100, VolumeType="io2")), "MissingParameter"),
    "key without encryption": (lambda h: h.launch(**mapped(VolumeSize=9, KmsKeyId="alias/x")),
                               "InvalidParameterDependency"),
    "two EFA on a card": (lambda h: h.launch(InstanceType="p4d.24xlarge", NetworkInterfaces=[
        h.nic(0, kind="efa"), h.nic(1, kind="efa")]), "AttachmentLimitExceeded"),
    "address outside": (lambda h: h.launch(PrivateIpAddress="192.168.7.7"), "InvalidParameterValue"),
    "address reserved": (lambda h: h.launch(PrivateIpAddress="10.77.1.3"), "InvalidParameterValue"),
    "address of many": (lambda h: h.launch(PrivateIpAddress="10.77.1.77", MinCount=2, MaxCount=2),
                        "InvalidParameterCombination"),
    "six groups": (lambda h: h.launch(SecurityGroupIds=[group(h) for _ in range(6)]),
                   "SecurityGroupsPerInterfaceLimitExceeded"),
    "burstable in a cluster": (lambda h: h.launch(InstanceType="t3.micro", Placement=placed(h, "cluster")),
                               "InvalidParameterCombination"),
    "eighth of a spread": (lambda h: h.launch(MinCount=8, MaxCount=8, Placement=placed(h, "spread")),
                           "InsufficientInstanceCapacity"),
    "partition": (lambda h: h.launch(Placement=placed(h, "partition") | {"PartitionNumber": 9}),
                  "InvalidParameterValue"),
    "no host": (lambda h: h.launch(Placement={"Tenancy": "host", "HostId": f"h-{NOBODY}"}), "InvalidHostID.NotFound"),
    "template's name": (lambda h: h.ec2.create_launch_template(
        LaunchTemplateName="my template", LaunchTemplateData={"InstanceType": "m5.large"}),
        "InvalidLaunchTemplateName.MalformedException"),
    "template's market": (lambda h: template(h, InstanceMarketOptions={"SpotOptions": {"MaxPrice": "1"}}),
                          "MissingParameter"),
    "fleet without version": (lambda h: fleet(h, chosen={"Version": ""}), "MissingParameter"),
    "fleet's priorities": (lambda h: fleet(h, OnDemandOptions={"AllocationStrategy": "lowest-price"},
                                           config={"Overrides": [{"Priority": 1}]}), "InvalidParameterCombination"),
}  # fmt: skip


def placed(here: Here, strategy: str) -> dict[str, str]:
    name = f"pg-{uuid.uuid4().hex}"
    here.ec2.create_placement_group(GroupName=name, Strategy=strategy)
    return {"GroupName": name}


RULES: dict[str, tuple[Call, str]] = {
    "two attributes": (lambda h: h.ec2.modify_vpc_attribute(
        VpcId=h.vpc_id, EnableDnsSupport={"Value": True}, EnableDnsHostnames={"Value": True}),
        "InvalidParameterCombination"),
    "long description": (lambda h: h.ec2.create_network_interface(SubnetId=h.subnet_id, Description="d" * 256),
                         "InvalidParameterValue"),
    "zone": (lambda h: h.ec2.create_volume(AvailabilityZone="us-east-1z", Size=1), "InvalidZone.NotFound"),
    "no size": (lambda h: volume(h), "MissingParameter"),
    "gp2 too large": (lambda h: volume(h, Size=20000, VolumeType="gp2"), "InvalidParameterValue"),
    "snapshot of an image": (lambda h: h.ec2.delete_snapshot(SnapshotId=snapshot(h)), "InvalidSnapshot.InUse"),
    "VPC with a group": (lambda h: [group(h), h.ec2.delete_vpc(VpcId=h.vpc_id)], "DependencyViolation"),
    "subnet too small": (lambda h: h.ec2.create_subnet(VpcId=h.vpc_id, CidrBlock="10.77.9.0/29"),
                         "InvalidSubnet.Range"),
    "subnet's zone": (lambda h: h.ec2.create_subnet(VpcId=h.vpc_id, CidrBlock="10.77.9.0/28",
                                                    AvailabilityZone="us-east-1z"), "InvalidParameterValue"),
    "subnet in use": (lambda h: [h.ec2.create_network_interface(SubnetId=h.subnet_id),
                                 h.ec2.delete_subnet(SubnetId=h.subnet_id)], "DependencyViolation"),
    "route to two targets": (lambda h: h.ec2.create_route(RouteTableId=table(h), DestinationCidrBlock="9.0.0.0/8",
                                                          GatewayId=gateway(h), InstanceId=f"i-{NOBODY}"),
                             "InvalidInstanceID.NotFound"),
    "foreign gateway": (lambda h: h.ec2.create_route(RouteTableId=table(h), DestinationCidrBlock="9.0.0.0/8",
                                                     GatewayId=gateway(h)), "InvalidParameterValue"),
    "no such route": (lambda h: h.ec2.delete_route(RouteTableId=table(h), DestinationCidrBlock="9.0.0.0/8"),
                      "InvalidRoute.NotFound"),
    "local route": (lambda h: h.ec2.delete_route(RouteTableId=table(h), DestinationCidrBlock="10.77.0.0/16"),
                    "InvalidParameterValue"),
    "gateway that is not attached": (lambda h: h.ec2.detach_internet_gateway(InternetGatewayId=gateway(h),
                                                                             VpcId=h.vpc_id), "Gateway.NotAttached"),
    "address without gateway": (lambda h: h.ec2.associate_address(
        AllocationId=h.ec2.allocate_address(Domain="vpc")["AllocationId"],
        NetworkInterfaceId=h.ec2.create_network_interface(SubnetId=h.subnet_id)["NetworkInterface"][
            "NetworkInterfaceId"]), "Gateway.NotAttached"),
    "NAT gateway without address": (lambda h: h.ec2.create_nat_gateway(SubnetId=h.subnet_id), "MissingParameter"),
    "gateway endpoint in a subnet": (lambda h: endpoint(h, SubnetIds=[h.subnet_id]), "InvalidParameter"),
    "gateway endpoint twice": (lambda h: [endpoint(h, RouteTableIds=[t]) for t in [table(h)] * 2],
                               "RouteAlreadyExists"),
    "group's text": (lambda h: h.ec2.create_security_group(GroupName="x", Description="für alle", VpcId=h.vpc_id),
                     "InvalidParameterValue"),
    "group's name": (lambda h: h.ec2.create_security_group(GroupName="sg-x", Description="x", VpcId=h.vpc_id),
                     "InvalidParameterValue"),
    "group that a rule names": (lambda h: named_in_a_rule(h), "DependencyViolation"),
    "default group": (lambda h: h.ec2.delete_security_group(GroupId=default(h)), "CannotDelete"),
    "ports": (lambda h: admit(h, group(h), IpProtocol="tcp", FromPort=9, ToPort=8), "InvalidParameterValue"),
    "port": (lambda h: admit(h, group(h), IpProtocol="tcp", FromPort=0, ToPort=65536), "InvalidParameterValue"),
    "protocol": (lambda h: admit(h, group(h), IpProtocol="carrier-pigeon"), "InvalidParameterValue"),
    "61 rules": (lambda h: admit(h, group(h), IpProtocol="-1", IpRanges=[
        {"CidrIp": f"10.{n}.0.0/16"} for n in range(61)]), "RulesPerSecurityGroupLimitExceeded"),
    "block's size": (lambda h: blocks(h, InstanceCount=3), "InvalidParameterValue"),
    "block's type": (lambda h: blocks(h, InstanceType="m5.large"), "InvalidParameterValue"),
    "block's hours": (lambda h: blocks(h, CapacityDurationHours=25), "InvalidParameterValue"),
    "reservation's end": (lambda h: h.ec2.create_capacity_reservation(
        InstanceType="m5.large", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=1,
        EndDateType="limited"), "InvalidParameterCombination"),
    "reservation of 1001": (lambda h: h.ec2.create_capacity_reservation(
        InstanceType="m5.large", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=1001),
        "InvalidParameterValue"),
    "partitions": (lambda h: h.ec2.create_placement_group(GroupName="x", Strategy="cluster", PartitionCount=2),
                   "InvalidParameterCombination"),
}  # fmt: skip


def blocks(here: Here, **more: Any) -> Any:
    wanted = {"InstanceType": "p5.48xlarge", "InstanceCount": 1, "CapacityDurationHours": 24}
    return here.ec2.describe_capacity_block_offerings(**(wanted | more))


def gateway(here: Here) -> str:
    return str(here.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"])


def snapshot(here: Here) -> str:
    image = here.ec2.describe_images(ImageIds=[here.image_id])["Images"][0]
    return str(image["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"])


def named_in_a_rule(here: Here) -> Any:
    one, other = group(here), group(here)
    admit(here, one, IpProtocol="-1", UserIdGroupPairs=[{"GroupId": other}])
    return here.ec2.delete_security_group(GroupId=other)


def default(here: Here) -> str:
    names = [{"Name": "vpc-id", "Values": [here.vpc_id]}, {"Name": "group-name", "Values": ["default"]}]
    return str(here.ec2.describe_security_groups(Filters=names)["SecurityGroups"][0]["GroupId"])


@pytest.mark.parametrize("name", [*GENERIC])
def test_what_ec2_refuses_of_any_call(here: Here, name: str) -> None:
    call, code = GENERIC[name]
    assert refusal(lambda: call(here))[:2] == (code, 400)


@pytest.mark.parametrize("name", [*LAUNCHES])
def test_a_refused_launch_leaves_nothing_behind(here: Here, name: str) -> None:
    call, code = LAUNCHES[name]
    before = here.census()
    assert refusal(lambda: call(here))[0] == code
    assert here.census() == before


@pytest.mark.parametrize("name", [*RULES])
def test_what_ec2_refuses(here: Here, name: str) -> None:
    call, code = RULES[name]
    assert refusal(lambda: call(here))[:2] == (code, 400)


@pytest.mark.parametrize(
    ("size_gib", "kind", "iops", "mib_s", "code"),
    [
        (6, "gp3", 3000, 125, None),
        (160, "gp3", 80000, 2000, None),
        (10, "gp3", 16000, None, "InvalidParameterValue"),
        (100, "gp3", 2999, None, "InvalidParameterValue"),
        (100, "gp3", None, 751, "InvalidParameterValue"),
        (100, "gp3", None, 124, "InvalidParameterValue"),
        (4, "io1", 200, None, None),
        (4, "io1", 201, None, "InvalidParameterValue"),
        (100, "io2", None, None, "MissingParameter"),
        (100, "io2", 100000, None, None),
        (124, "st1", None, None, "InvalidParameterValue"),
        (100, "gp2", 300, None, "InvalidParameterCombination"),
        (100, "gp2", None, 125, "InvalidParameterCombination"),
        (100, "gp9", None, None, "InvalidParameterValue"),
    ],
)
def test_what_a_volume_can_be(size_gib: int, kind: str, iops: int | None, mib_s: int | None, code: str | None) -> None:
    try:
        volumes.check(size_gib, kind, iops, mib_s)
    except Refusal as refused:
        assert refused.code == code
    else:
        assert code is None


def test_a_mappings_iops_and_throughput_are_kept(here: Here) -> None:
    wanted = [
        {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 123, "VolumeType": "gp3", "Iops": 6000, "Throughput": 500}},
        {"DeviceName": "/dev/sdg", "Ebs": {"VolumeSize": 124, "VolumeType": "io2", "Iops": 3000}},
    ]
    instance_id = here.launch(BlockDeviceMappings=wanted)["Instances"][0]["InstanceId"]
    attached = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
    found = {
        volume["Size"]: (volume["VolumeType"], volume["Iops"], volume.get("Throughput"))
        for volume in here.ec2.describe_volumes(Filters=attached)["Volumes"]
    }
    assert found[123] == ("gp3", 6000, 500)
    assert found[124] == ("io2", 3000, None)


def test_a_token_of_a_terminated_instance_is_refused(here: Here) -> None:
    """boto/boto3#4406"""
    token = uuid.uuid4().hex
    instance_id = here.launch(ClientToken=token)["Instances"][0]["InstanceId"]
    here.ec2.terminate_instances(InstanceIds=[instance_id])
    here.ec2.get_waiter("instance_terminated").wait(InstanceIds=[instance_id], WaiterConfig={"Delay": 1})
    assert refusal(lambda: here.launch(ClientToken=token))[0] == "IdempotentInstanceTerminated"


@pytest.mark.parametrize(
    ("action", "member"),
    [
        ("describe_launch_templates", "LaunchTemplates"),
        ("describe_security_groups", "SecurityGroups"),
        ("describe_subnets", "Subnets"),
        ("describe_volumes", "Volumes"),
        ("describe_network_interfaces", "NetworkInterfaces"),
    ],
)
def test_pages_have_everything_once(here: Here, action: str, member: str) -> None:
    for _ in range(7):
        template(here), group(here), volume(here, Size=1)  # noqa: B018
        here.ec2.create_network_interface(SubnetId=here.subnet_id)
    whole = getattr(here.ec2, action)()[member]
    pages = [page[member] for page in here.ec2.get_paginator(action).paginate(PaginationConfig={"PageSize": 5})]
    assert [each for page in pages for each in page] == whole
    assert len(pages) == -(-len(whole) // 5)


def test_types_come_a_hundred_at_a_time(here: Here) -> None:
    page = here.ec2.describe_instance_types()
    assert len(page["InstanceTypes"]) == 100
    assert page["NextToken"]


def test_no_healthy_instance_is_impaired(here: Here) -> None:
    here.launch()
    impaired = [{"Name": "instance-status.status", "Values": ["impaired"]}]
    assert here.ec2.describe_instance_status(Filters=impaired, IncludeAllInstances=True)["InstanceStatuses"] == []


@pytest.mark.parametrize("action", ["create_vpc", "create_subnet", "create_security_group", "create_volume"])
def test_a_dry_run_makes_nothing(here: Here, action: str) -> None:
    given: dict[str, dict[str, Any]] = {
        "create_vpc": {"CidrBlock": "10.99.0.0/16"},
        "create_subnet": {"VpcId": here.vpc_id, "CidrBlock": "10.77.99.0/24"},
        "create_security_group": {"GroupName": "dry", "Description": "x", "VpcId": here.vpc_id},
        "create_volume": {"AvailabilityZone": "us-east-1a", "Size": 1},
    }
    before = here.census(), len(here.ec2.describe_vpcs()["Vpcs"])
    call = getattr(here.ec2, action)
    assert refusal(lambda: call(DryRun=True, **given[action]))[:2] == ("DryRunOperation", 412)
    assert (here.census(), len(here.ec2.describe_vpcs()["Vpcs"])) == before


def test_what_was_just_made_is_not_ready(here: Here) -> None:
    vpc = here.ec2.create_vpc(CidrBlock="10.98.0.0/16")["Vpc"]
    disk = volume(here, Size=1)
    assert (vpc["State"], disk["State"]) == ("pending", "creating")
    assert here.ec2.describe_vpcs(VpcIds=[vpc["VpcId"]])["Vpcs"][0]["State"] == "available"
    assert here.ec2.describe_volumes(VolumeIds=[disk["VolumeId"]])["Volumes"][0]["State"] == "available"
