"""Requests that AWS accepts and that a check could refuse by mistake, which would stop a valid cluster."""

from __future__ import annotations

import ast
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import moto.ec2.models
import pytest

from localcloud.ec2.validation import filters
from localcloud.pace import figures
from localcloud.tests.in_process import InProcess, refusal

OTHER_REGION = "us-west-2"
Case = tuple[str, Callable[[Any, InProcess], Any]]


def new() -> str:
    return f"p-{uuid.uuid4().hex[:16]}"


def vpc(ec2: Any) -> str:
    return str(ec2.create_vpc(CidrBlock="10.66.0.0/16")["Vpc"]["VpcId"])


def group(ec2: Any) -> str:
    return str(ec2.create_security_group(GroupName=new(), Description="x", VpcId=vpc(ec2))["GroupId"])


def volume(ec2: Any, **more: Any) -> str:
    wanted = {"AvailabilityZone": "us-east-1a", "Size": 100, "VolumeType": "gp3"}
    return str(ec2.create_volume(**(wanted | more))["VolumeId"])


def image_elsewhere(cloud: InProcess) -> str:
    parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
    there = cloud.client("ec2", OTHER_REGION)
    source = cloud.client("ssm", OTHER_REGION).get_parameter(Name=parameter)["Parameter"]["Value"]
    copied = there.copy_image(Name=new(), SourceImageId=source, SourceRegion=OTHER_REGION)
    return str(copied["ImageId"])


def snapshot_elsewhere(cloud: InProcess) -> str:
    there = cloud.client("ec2", OTHER_REGION)
    made = there.create_volume(AvailabilityZone=f"{OTHER_REGION}a", Size=1)["VolumeId"]
    return str(there.create_snapshot(VolumeId=made)["SnapshotId"])


def peering(ec2: Any, cloud: InProcess) -> Any:
    peer = vpc(cloud.client("ec2", OTHER_REGION))
    return ec2.create_vpc_peering_connection(VpcId=vpc(ec2), PeerVpcId=peer, PeerRegion=OTHER_REGION)


def rules(ec2: Any, ipv4: int, ipv6: int) -> Any:
    ranges = {
        "IpRanges": [{"CidrIp": f"10.{n}.0.0/16"} for n in range(ipv4)],
        "Ipv6Ranges": [{"CidrIpv6": f"2001:db8:{n:x}::/48"} for n in range(ipv6)],
    }
    return ec2.authorize_security_group_ingress(GroupId=group(ec2), IpPermissions=[{"IpProtocol": "-1", **ranges}])


def database(rds: Any, **more: Any) -> Any:
    wanted = {"DBInstanceIdentifier": new(), "DBInstanceClass": "db.r6g.large", "Engine": "aurora-mysql"}
    return rds.create_db_instance(**(wanted | more))


def aurora(rds: Any, **more: Any) -> Any:
    cluster = new()
    rds.create_db_cluster(
        DBClusterIdentifier=cluster, Engine="aurora-mysql", MasterUsername="adm", MasterUserPassword="longenough"
    )
    return database(rds, DBClusterIdentifier=cluster, **more)


def bucket_policy(s3: Any, resource: str = "{}/*", principal: Any = "*") -> Any:
    name = new()
    s3.create_bucket(Bucket=name)
    statement = {
        "Effect": "Allow", "Action": "s3:GetObject", "Principal": principal,
        "Resource": f"arn:aws:s3:::{resource.format(name)}",
    }  # fmt: skip
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return s3.put_bucket_policy(Bucket=name, Policy=json.dumps(document))


OAI = "arn:aws:iam::cloudfront:user/CloudFront Origin Access Identity E15MNIMTCFKK4C"
ACCEPTED: dict[str, Case] = {
    "an image of another Region": ("ec2", lambda c, cloud: c.copy_image(
        Name=new(), SourceImageId=image_elsewhere(cloud), SourceRegion=OTHER_REGION)),
    "a snapshot of another Region": ("ec2", lambda c, cloud: c.copy_snapshot(
        SourceSnapshotId=snapshot_elsewhere(cloud), SourceRegion=OTHER_REGION)),
    "a VPC of another Region": ("ec2", peering),
    "io2 at its default IOPS": ("ec2", lambda c, _: c.modify_volume(VolumeId=volume(c), VolumeType="io2")),
    "small io1 at its default IOPS": ("ec2", lambda c, _: c.modify_volume(
        VolumeId=volume(c, Size=4), VolumeType="io1")),
    "more endpoints than a page has": ("ec2", lambda c, _: c.describe_vpc_endpoints(MaxResults=5000)),
    "more services than a page has": ("ec2", lambda c, _: c.describe_vpc_endpoint_services(MaxResults=5000)),
    "more volumes than a page has": ("ec2", lambda c, _: c.describe_volumes(MaxResults=5000)),
    "types by name, in pages": ("ec2", lambda c, _: c.describe_instance_types(
        InstanceTypes=["m5.large"], MaxResults=5)),
    "groups by id, in pages": ("ec2", lambda c, _: c.describe_security_groups(GroupIds=[group(c)], MaxResults=5)),
    "60 rules of IPv4 and 60 of IPv6": ("ec2", lambda c, _: rules(c, 60, 60)),
    "serverless Aurora": ("rds", lambda c, _: aurora(c, DBInstanceClass="db.serverless")),
    "class with memory of its own": ("rds", lambda c, _: database(
        c, Engine="oracle-ee", DBInstanceClass="db.r5.large.tpc1.mem2x", AllocatedStorage=20)),
    "version without a parameter group": ("rds", lambda c, _: database(
        c, Engine="mariadb", EngineVersion="10.11", AllocatedStorage=20, MasterUsername="adm",
        MasterUserPassword="longenough")),
    "end of an Aurora member": ("rds", lambda c, _: c.delete_db_instance(
        DBInstanceIdentifier=aurora(c)["DBInstance"]["DBInstanceIdentifier"])),
    "policy for names that begin with the bucket's": ("s3", lambda c, _: bucket_policy(c, "{}*")),
    "policy for the beginning of the bucket's name": ("s3", lambda c, _: bucket_policy(c, "p-*/*")),
    "policy for CloudFront": ("s3", lambda c, _: bucket_policy(c, principal={"AWS": OAI})),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ACCEPTED])
def test_requests_that_aws_accepts(cloud: InProcess, name: str) -> None:
    service, call = ACCEPTED[name]
    assert refusal(lambda: call(cloud.client(service), cloud)) == ("", 200, "")


@pytest.mark.parametrize(("ipv4", "ipv6"), [(61, 0), (0, 61)])
def test_each_family_has_its_own_limit_of_rules(cloud: InProcess, ipv4: int, ipv6: int) -> None:
    refused = refusal(lambda: rules(cloud.client("ec2"), ipv4, ipv6))
    assert refused[:2] == ("RulesPerSecurityGroupLimitExceeded", 400)


@pytest.mark.parametrize("resource", ["*", "other*", "other/*", "{}-other/*"])
def test_a_bucket_policys_resources_must_be_of_its_bucket(cloud: InProcess, resource: str) -> None:
    assert refusal(lambda: bucket_policy(cloud.client("s3"), resource))[:2] == ("MalformedPolicy", 400)


@pytest.mark.parametrize("source_region", ["us-east-1", OTHER_REGION])
def test_a_missing_image_cannot_be_copied(cloud: InProcess, source_region: str) -> None:
    wanted = {"SourceImageId": "ami-0123456789abcdef0", "SourceRegion": source_region}
    refused = refusal(lambda: cloud.client("ec2").copy_image(Name=new(), **wanted))
    assert refused[:2] == ("InvalidAMIID.NotFound", 400)


def test_a_changed_volume_has_the_default_iops(cloud: InProcess) -> None:
    ec2 = cloud.client("ec2")
    volume_id = volume(ec2, VolumeType="gp2")
    ec2.modify_volume(VolumeId=volume_id, VolumeType="io2")
    found = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]
    assert (found["VolumeType"], found["Iops"]) == ("io2", 3000)


@pytest.mark.parametrize("kind", ["maintain", "request"])
def test_a_fleet_can_begin_without_instances(cloud: InProcess, kind: str) -> None:
    """The local cloud lacks such fleets. The error says so, instead of calling the capacity wrong."""
    ec2, name = cloud.client("ec2"), new()
    ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "m5.large"})
    template = {"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "1"}}
    capacity = {"TotalTargetCapacity": 0, "DefaultTargetCapacityType": "spot"}
    wanted = {"TargetCapacitySpecification": capacity, "LaunchTemplateConfigs": [template]}
    assert refusal(lambda: ec2.create_fleet(Type=kind, **wanted))[0] == "UnsupportedOperation"
    assert refusal(lambda: ec2.create_fleet(Type="instant", **wanted))[0] == "InvalidParameterValue"


FILTERS = {
    "describe_vpcs": {
        "isDefault": "true", "is-default": "true", "cidr": "10.66.0.0/16", "cidrBlock": "10.66.0.0/16",
        "cidr-block": "10.66.0.0/16", "vpcId": "vpc-1", "dhcpOptionsId": "dopt-1", "tag:Name": "x", "tag-key": "Name",
        "tag-value": "x",
    },
    "describe_subnets": {
        "availabilityZone": "us-east-1a", "availability-zone-id": "use1-az1", "availabilityZoneId": "use1-az1",
        "cidr": "10.66.1.0/24", "cidrBlock": "10.66.1.0/24", "cidr-block": "10.66.1.0/24", "defaultForAz": "true",
        "vpcId": "vpc-1",
    },
    "describe_addresses": {"domain": "vpc", "tag:Name": "x"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("action", "name", "value"), [(action, *pair) for action, pairs in FILTERS.items() for pair in pairs.items()]
)
def test_a_filter_by_any_of_its_names(cloud: InProcess, action: str, name: str, value: str) -> None:
    call = getattr(cloud.client("ec2"), action)
    assert refusal(lambda: call(Filters=[{"Name": name, "Values": [value]}])) == ("", 200, "")


def test_a_default_vpc_is_found_as_cdk_looks_for_it(cloud: InProcess) -> None:
    """https://github.com/aws/aws-cdk-cli: the context provider of Vpc.fromLookup sends isDefault."""
    ec2 = cloud.client("ec2")
    vpc(ec2)
    for name in ("isDefault", "is-default"):
        found = ec2.describe_vpcs(Filters=[{"Name": name, "Values": ["true"]}])["Vpcs"]
        assert [each["IsDefault"] for each in found] == [True]


def test_subnets_are_found_by_their_zones_id(cloud: InProcess) -> None:
    ec2 = cloud.client("ec2")
    wanted = {"VpcId": vpc(ec2), "AvailabilityZone": "us-east-1b"}
    made = ec2.create_subnet(CidrBlock="10.66.1.0/24", **wanted)["Subnet"]
    for name in ("availability-zone-id", "availabilityZoneId"):
        of_zone = [{"Name": name, "Values": [made["AvailabilityZoneId"]]}]
        found = ec2.describe_subnets(Filters=of_zone)["Subnets"]
        assert made["SubnetId"] in {each["SubnetId"] for each in found}
        assert {each["AvailabilityZone"] for each in found} == {"us-east-1b"}


ACTIONS = {
    "Ami": "DescribeImages", "DHCPOptionsSet": "DescribeDhcpOptions", "ElasticAddress": "DescribeAddresses",
    "FlowLogs": "DescribeFlowLogs", "Host": "DescribeHosts", "KeyPair": "DescribeKeyPairs",
    "LaunchTemplate": "DescribeLaunchTemplates", "NetworkAcl": "DescribeNetworkAcls",
    "NetworkInterface": "DescribeNetworkInterfaces", "RouteTable": "DescribeRouteTables",
    "Snapshot": "DescribeSnapshots", "SpotInstanceRequest": "DescribeSpotInstanceRequests",
    "Subnet": "DescribeSubnets", "VPC": "DescribeVpcs", "VPCEndPoint": "DescribeVpcEndpoints",
    "Volume": "DescribeVolumes", "VolumeModification": "DescribeVolumesModifications",
    "VpnGateway": "DescribeVpnGateways",
}  # fmt: skip


def of_moto() -> Iterator[tuple[str, str]]:
    """(class, name) of every filter that a moto class supports."""
    for file in sorted(Path(moto.ec2.models.__file__).parent.glob("*.py")):
        for owner in ast.walk(ast.parse(file.read_text())):
            if not isinstance(owner, ast.ClassDef) or owner.name not in ACTIONS:
                continue
            for function in owner.body:
                if isinstance(function, ast.FunctionDef) and function.name == "get_filter_value":
                    yield from ((owner.name, name) for name in compared(function))


def compared(function: ast.FunctionDef) -> Iterator[str]:
    for comparison in ast.walk(function):
        if isinstance(comparison, ast.Compare):
            constants = (each.value for each in ast.walk(comparison) if isinstance(each, ast.Constant))
            yield from (value for value in constants if isinstance(value, str))


def test_no_filter_that_moto_has_is_refused() -> None:
    found = [*of_moto()]
    assert len(found) > 100
    for owner, name in found:
        filters.check(ACTIONS[owner], {"Filters": [{"Name": name, "Values": ["x"]}]})


def test_figures_without_a_source_for_the_maximum_are_marked_as_assumed() -> None:
    """aws-samples/aws-plugin-for-slurm#16, hashicorp/packer#12303 and the sources of some waits give only a minimum."""
    loaded = figures.load("aws")
    lags = {row.of: row.assumed for row in loaded.lag}
    assert lags["instance"] and lags["instance-profile"]
    assert [row.assumed for row in loaded.shutting_down] == [True, True, True, False]
