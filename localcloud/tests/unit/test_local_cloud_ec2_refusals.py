"""EC2's rules for every call (ids, filters, tags, ranges, pages) and for each kind of resource."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from localcloud.faults import parse
from localcloud.tests.ec2_place import NOBODY, Call, Here, group, template
from localcloud.tests.in_process import InProcess, refusal

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


def admit(here: Here, group_id: str, **permission: Any) -> Any:
    return here.ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=[permission])


def endpoint(here: Here, **more: Any) -> Any:
    return here.ec2.create_vpc_endpoint(VpcId=here.vpc_id, ServiceName="com.amazonaws.us-east-1.s3", **more)


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
    "protected from stopping": (lambda h: h.ec2.stop_instances(InstanceIds=[h.launch(DisableApiStop=True)["Instances"][
        0]["InstanceId"]]), "OperationNotPermitted"),
    "instance in a foreign group": (lambda h: h.ec2.modify_instance_attribute(
        InstanceId=h.launch()["Instances"][0]["InstanceId"], Groups=[foreign_group(h)]), "InvalidParameterValue"),
    "interface's address": (lambda h: [h.ec2.create_network_interface(
        SubnetId=h.subnet_id, PrivateIpAddress="10.77.1.200") for _ in "12"], "InvalidIPAddress.InUse"),
    "rule for nobody": (lambda h: admit(h, group(h), IpProtocol="tcp", FromPort=1, ToPort=2), "MissingParameter"),
    "type of ICMP": (lambda h: admit(h, group(h), IpProtocol="icmp", FromPort=300, ToPort=0, IpRanges=[
        {"CidrIp": "10.0.0.0/8"}]), "InvalidParameterValue"),
    "endpoint's policy": (lambda h: endpoint(h, PolicyDocument="nope"), "InvalidPolicyDocument"),
    "reservation that ended": (lambda h: h.ec2.create_capacity_reservation(
        InstanceType="m5.large", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=1,
        EndDateType="limited", EndDate="2020-01-01T00:00:00Z"), "InvalidParameterValue"),
    "no such NAT gateway": (lambda h: h.ec2.delete_nat_gateway(NatGatewayId=f"nat-{NOBODY}"), "NatGatewayNotFound"),
    "no such instance": (lambda h: h.ec2.terminate_instances(InstanceIds=[f"i-{NOBODY}"]),
                         "InvalidInstanceID.NotFound"),
    "filter of NAT gateways": (lambda h: h.ec2.describe_nat_gateways(Filters=[{"Name": "colour", "Values": ["x"]}]),
                               "InvalidParameterValue"),
    "no such transit gateway": (lambda h: h.ec2.delete_transit_gateway(TransitGatewayId=f"tgw-{NOBODY}"),
                                "InvalidTransitGatewayID.NotFound"),
}  # fmt: skip


def blocks(here: Here, **more: Any) -> Any:
    wanted = {"InstanceType": "p5.48xlarge", "InstanceCount": 1, "CapacityDurationHours": 24}
    return here.ec2.describe_capacity_block_offerings(**(wanted | more))


def foreign_group(here: Here) -> str:
    elsewhere = here.ec2.create_vpc(CidrBlock="10.97.0.0/16")["Vpc"]["VpcId"]
    name = f"g-{uuid.uuid4().hex}"
    return str(here.ec2.create_security_group(GroupName=name, Description="x", VpcId=elsewhere)["GroupId"])


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
def test_rules_of_ec2_for_every_call(here: Here, name: str) -> None:
    call, code = GENERIC[name]
    assert refusal(lambda: call(here))[:2] == (code, 400)


@pytest.mark.parametrize("name", [*RULES])
def test_requests_that_ec2_refuses(here: Here, name: str) -> None:
    call, code = RULES[name]
    assert refusal(lambda: call(here))[:2] == (code, 400)


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
def test_pages_contain_every_item_once(here: Here, action: str, member: str) -> None:
    for _ in range(7):
        template(here), group(here), volume(here, Size=1)  # noqa: B018
        here.ec2.create_network_interface(SubnetId=here.subnet_id)
    whole = getattr(here.ec2, action)()[member]
    pages = [page[member] for page in here.ec2.get_paginator(action).paginate(PaginationConfig={"PageSize": 5})]
    assert [each for page in pages for each in page] == whole
    assert len(pages) == -(-len(whole) // 5)


def test_describe_instance_types_returns_a_hundred_per_page(here: Here) -> None:
    page = here.ec2.describe_instance_types()
    assert len(page["InstanceTypes"]) == 100
    assert page["NextToken"]


def test_the_status_filter_impaired_finds_no_healthy_instance(here: Here) -> None:
    here.launch()
    impaired = [{"Name": "instance-status.status", "Values": ["impaired"]}]
    assert here.ec2.describe_instance_status(Filters=impaired, IncludeAllInstances=True)["InstanceStatuses"] == []


def test_a_fault_gives_an_instance_an_event_and_a_failed_status_check(here: Here, cloud: InProcess) -> None:
    first, second = (here.launch()["Instances"][0]["InstanceId"] for _ in range(2))
    here.ec2.get_waiter("instance_running").wait(InstanceIds=[first, second], WaiterConfig={"Delay": 1})
    cloud.faults.add(parse({"kind": "event", "instance_id": first, "code": "instance-stop", "delay_s": 600}))
    cloud.faults.add(parse({"kind": "impaired", "instance_id": second}))

    def found(name: str, value: str) -> list[Any]:
        filters = [{"Name": name, "Values": [value]}]
        return list(here.ec2.describe_instance_status(Filters=filters)["InstanceStatuses"])

    (status,) = found("event.code", "instance-stop")
    assert (status["InstanceId"], status["InstanceStatus"]["Status"]) == (first, "ok")
    assert [event["Code"] for event in status["Events"]] == ["instance-stop"]
    (status,) = found("instance-status.status", "impaired")
    assert (status["InstanceId"], status["InstanceStatus"]["Details"][0]["Status"]) == (second, "failed")
    assert "ImpairedSince" in status["InstanceStatus"]["Details"][0]
    assert found("system-status.status", "impaired") == found("event.code", "system-reboot") == []


@pytest.mark.parametrize("action", ["create_vpc", "create_subnet", "create_security_group", "create_volume"])
def test_a_dry_run_creates_nothing(here: Here, action: str) -> None:
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


def test_a_new_resource_is_not_shown_as_ready(here: Here) -> None:
    vpc = here.ec2.create_vpc(CidrBlock="10.98.0.0/16")["Vpc"]
    disk = volume(here, Size=1)
    assert (vpc["State"], disk["State"]) == ("pending", "creating")
    assert here.ec2.describe_vpcs(VpcIds=[vpc["VpcId"]])["Vpcs"][0]["State"] == "available"
    assert here.ec2.describe_volumes(VolumeIds=[disk["VolumeId"]])["Volumes"][0]["State"] == "available"


def test_a_missing_endpoint_is_reported_in_the_answer(here: Here) -> None:
    unsuccessful = here.ec2.delete_vpc_endpoints(VpcEndpointIds=[f"vpce-{NOBODY}"])["Unsuccessful"]
    assert [each["Error"]["Code"] for each in unsuccessful] == ["InvalidVpcEndpoint.NotFound"]


def test_a_region_has_five_elastic_addresses(cloud: InProcess) -> None:
    """https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html#vpc-limits-eips"""
    ec2 = cloud.client("ec2", "eu-north-1")
    for _ in range(5):
        ec2.allocate_address(Domain="vpc")
    assert refusal(lambda: ec2.allocate_address(Domain="vpc"))[0] == "AddressLimitExceeded"
