"""The calls that `up` makes before any change, against the local cloud: its answers have what validators read."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucluster import updates
from gpucluster.cluster.online import LiveAccount
from gpucluster.config import loads
from gpucluster.config.checks import Outcome, check_online
from localcloud.testing.place import TRUST, ZONE, Place
from tests import warm

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "123456789012"


@dataclass
class Things:
    """Resources that a cluster file may name, created in the account."""

    vpc_id: str
    subnet_id: str
    image_id: str
    key_arn: str
    boundary_arn: str
    reservation_id: str
    group: str
    bucket: str

    def cluster(self, **keys: Any) -> str:
        reserved = {"purchase": "reservation", "reservation_id": self.reservation_id, "placement_group": "none"}
        trained = {"name": "train", "instance_types": ["p4d.24xlarge"], "max_nodes": 2, "min_nodes": 1}
        found = {
            "name": "Asking",
            "region": "us-east-1",
            "availability_zone": ZONE,
            "network": {"vpc_id": self.vpc_id, "subnet_id": self.subnet_id},
            "software": {"image": self.image_id},
            "partitions": [
                {**trained, "placement_group": self.group},
                {**trained, "name": "reserved", **reserved},
                {**trained, "name": "spot", "instance_types": ["g5.12xlarge"], "purchase": "spot"},
            ],
            "parameter_servers": {"placement_group": self.group},
            "storage": [
                {
                    "mount": "/fsx",
                    "type": "fsx-lustre",
                    "data_repositories": [{"path": "/a", "s3": f"s3://{self.bucket}/a", "import": ["new"]}],
                }
            ],
            "s3_access": [{"uri": f"s3://{self.bucket}/a"}],
            "monitoring": {"alarm_email": "a@example.org"},
            "budget": {"monthly_usd": 10000, "email": "a@example.org"},
            "security": {"kms_key_arn": self.key_arn, "permissions_boundary_arn": self.boundary_arn},
            **keys,
        }
        return json.dumps(found)


def asked(text: str, client: Callable[[str], Any]) -> Outcome:
    return check_online(loads(text), LiveAccount(client))


def spoke(outcome: Outcome) -> dict[str, str]:
    return {finding.validator: finding.message for finding in outcome.findings}


@pytest.fixture
def things(place: Place) -> Iterator[Things]:
    ec2, client = place.ec2, place.cloud.client
    key = client("kms").create_key(Policy=json.dumps({"Version": "2012-10-17", "Statement": _admitting()}))
    boundary = client("iam").create_policy(PolicyName="asking", PolicyDocument=json.dumps(_document("*")))
    reservation = ec2.create_capacity_reservation(
        InstanceType="p4d.24xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone=ZONE, InstanceCount=2
    )
    ec2.create_placement_group(GroupName="asking", Strategy="cluster")
    client("s3").create_bucket(Bucket="asking")
    made = Things(
        vpc_id=place.vpc_id,
        subnet_id=place.subnet_id,
        image_id=place.image_id,
        key_arn=key["KeyMetadata"]["Arn"],
        boundary_arn=boundary["Policy"]["Arn"],
        reservation_id=reservation["CapacityReservation"]["CapacityReservationId"],
        group="asking",
        bucket="asking",
    )
    with _led_out(place):
        yield made
    client("s3").delete_bucket(Bucket="asking")
    ec2.delete_placement_group(GroupName="asking")
    ec2.cancel_capacity_reservation(CapacityReservationId=made.reservation_id)
    client("iam").delete_policy(PolicyArn=made.boundary_arn)


@contextmanager
def _led_out(place: Place) -> Iterator[None]:
    """A subnet that suits nodes: it has DNS and a route to a NAT gateway."""
    ec2 = place.ec2
    for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=place.vpc_id, **{attribute: {"Value": True}})
    ec2.modify_subnet_attribute(SubnetId=place.subnet_id, MapPublicIpOnLaunch={"Value": False})
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = ec2.create_nat_gateway(SubnetId=place.subnet_id, AllocationId=address)["NatGateway"]["NatGatewayId"]
    table = ec2.create_route_table(VpcId=place.vpc_id)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=gateway)
    association = ec2.associate_route_table(RouteTableId=table, SubnetId=place.subnet_id)["AssociationId"]
    yield
    ec2.disassociate_route_table(AssociationId=association)
    ec2.delete_route_table(RouteTableId=table)
    ec2.delete_nat_gateway(NatGatewayId=gateway)
    ec2.release_address(AllocationId=address)


def _document(action: str) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}


def _admitting() -> list[dict[str, Any]]:
    services = ["logs.us-east-1.amazonaws.com", "cloudwatch.amazonaws.com"]
    principals = [{"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, {"Service": services}]
    return [{"Effect": "Allow", "Principal": each, "Action": "kms:*", "Resource": "*"} for each in principals]


def test_existing_resources_are_found_and_accepted(place: Place, things: Things) -> None:
    client = place.cloud.client
    assert spoke(asked(things.cluster(), client)) == {
        "budget-tag-active": "counts nothing yet: gpucluster:cluster is not an active cost allocation tag"
    }
    active = [{"TagKey": "gpucluster:cluster", "Status": "Active"}]
    client("ce").update_cost_allocation_tags_status(CostAllocationTagsStatus=active)
    assert spoke(asked(things.cluster(), client)) == {}
    client("ce").update_cost_allocation_tags_status(
        CostAllocationTagsStatus=[{"TagKey": "gpucluster:cluster", "Status": "Inactive"}]
    )


def test_an_existing_network_without_the_private_zones_names_or_a_way_out_is_refused(
    place: Place, things: Things
) -> None:
    ec2, client = place.ec2, place.cloud.client
    servers = [{"Key": "domain-name-servers", "Values": ["10.1.1.10"]}]
    options = ec2.create_dhcp_options(DhcpConfigurations=servers)["DhcpOptions"]["DhcpOptionsId"]
    ec2.associate_dhcp_options(DhcpOptionsId=options, VpcId=place.vpc_id)
    gateway = ec2.describe_nat_gateways()["NatGateways"][-1]["NatGatewayId"]
    ec2.delete_nat_gateway(NatGatewayId=gateway)
    routes = [route for table in ec2.describe_route_tables()["RouteTables"] for route in table["Routes"]]
    assert [each["State"] for each in routes if each.get("NatGatewayId") == gateway] == ["blackhole"]
    found = spoke(asked(things.cluster(budget=None), client))
    ec2.associate_dhcp_options(DhcpOptionsId="default", VpcId=place.vpc_id)
    ec2.delete_dhcp_options(DhcpOptionsId=options)
    assert found == {
        "vpc-dns-servers": f"{place.vpc_id} gives nodes the DNS servers 10.1.1.10 ({options}), "
        "which do not know the names of asking.internal",
        "subnet-leads-out": f"{place.subnet_id} has no route to the internet: {gateway} is gone or does not work",
    }


def test_the_endpoint_that_the_vpc_has_is_used_whether_the_file_names_it_or_not(place: Place, things: Things) -> None:
    ec2, client = place.ec2, place.cloud.client
    group = ec2.create_security_group(GroupName="door", Description="x", VpcId=place.vpc_id)["GroupId"]
    made = ec2.create_instance_connect_endpoint(SubnetId=place.subnet_id, SecurityGroupIds=[group])
    id_ = made["InstanceConnectEndpoint"]["InstanceConnectEndpointId"]
    door = {"connect_endpoint_id": id_, "connect_security_group_id": group}
    network = json.loads(things.cluster())["network"]
    unnamed = spoke(asked(things.cluster(budget=None), client))
    named = spoke(asked(things.cluster(budget=None, network={**network, **door}), client))
    rules = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissionsEgress"]
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=rules)
    found_shut = spoke(asked(things.cluster(budget=None), client))
    shut = spoke(asked(things.cluster(budget=None, network={**network, **door}), client))
    ec2.delete_instance_connect_endpoint(InstanceConnectEndpointId=id_)
    ec2.delete_security_group(GroupId=group)
    assert unnamed == named == {}
    assert list(shut) == list(found_shut) == ["connect-endpoint-reaches-nodes"]
    gone = spoke(asked(things.cluster(budget=None, network={**network, **door}), client))
    assert gone == {"connect-endpoint-exists": f"the account sees no {id_} in us-east-1"}


def test_each_missing_resource_is_named(place: Place, things: Things) -> None:
    absent = Things(
        vpc_id="vpc-0123456789abcdef0",
        subnet_id="subnet-0123456789abcdef0",
        image_id="ami-0123456789abcdef0",
        key_arn=f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        boundary_arn=f"arn:aws:iam::{ACCOUNT}:policy/absent",
        reservation_id="cr-0123456789abcdef0",
        group="absent",
        bucket="absent-bucket",
    )
    found = spoke(asked(absent.cluster(budget=None), place.cloud.client))
    assert set(found) == {
        "vpc-exists",
        "subnet-exists",
        "image-exists",
        "kms-key-exists",
        "boundary-exists",
        "reservation-exists",
        "placement-group-exists",
        "bucket-exists",
    }
    assert not [message for message in found.values() if "could not be checked" in message]


def test_existing_resources_that_do_not_fit_are_refused(place: Place, things: Things) -> None:
    ec2, client = place.ec2, place.cloud.client
    client("kms").disable_key(KeyId=things.key_arn.rpartition("/")[2])
    ec2.modify_vpc_attribute(VpcId=place.vpc_id, EnableDnsHostnames={"Value": False})
    ec2.modify_subnet_attribute(SubnetId=place.subnet_id, MapPublicIpOnLaunch={"Value": True})
    ec2.create_placement_group(GroupName="apart", Strategy="spread")
    things.group = "apart"
    reserved = json.loads(things.cluster())["partitions"]
    reserved[1].update(instance_types=["p5.48xlarge"], max_nodes=4)
    found = spoke(asked(things.cluster(partitions=reserved, budget=None), client))
    ec2.delete_placement_group(GroupName="apart")
    assert {
        "kms-key-enabled": "the key is Disabled",
        "vpc-resolves-names": f"enableDnsHostnames is off in {place.vpc_id}",
        "subnet-gives-no-public-addresses": f"{place.subnet_id} gives instances public addresses",
        "placement-group-strategy": "'apart' is a spread group, which spreads nodes",
        "reservation-matches": f"{things.reservation_id} is for p4d.24xlarge, got p5.48xlarge",
        "reservation-count": f"{things.reservation_id} holds 2 instances, got 4",
    }.items() <= found.items()


def credentials_of_a_role(place: Place, action: str) -> dict[str, str]:
    """Credentials of an instance, because the local cloud enforces its role's policies."""
    iam = place.cloud.client("iam")
    iam.create_role(RoleName="asker", AssumeRolePolicyDocument=TRUST)
    iam.put_role_policy(RoleName="asker", PolicyName="asker", PolicyDocument=json.dumps(_document(action)))
    iam.create_instance_profile(InstanceProfileName="asker")
    iam.add_role_to_instance_profile(InstanceProfileName="asker", RoleName="asker")
    (instance_id,) = place.run(IamInstanceProfile={"Name": "asker"})
    url = f"{place.cloud.endpoint_url}/_localcloud/credentials?instance_id={instance_id}"
    with urllib.request.urlopen(url) as response:
        held = json.load(response)
    return {
        "aws_access_key_id": held["access_key_id"],
        "aws_secret_access_key": held["secret_access_key"],
        "aws_session_token": held["session_token"],
    }


def test_without_permission_to_check_there_is_only_a_warning(place: Place, things: Things) -> None:
    keys = credentials_of_a_role(place, "ec2:DescribeSubnets")
    outcome = asked(things.cluster(budget=None), lambda service: place.cloud.client(service, **keys))
    assert {finding.level for finding in outcome.findings} == {"warning"}
    said = spoke(outcome)
    assert {each for each, message in said.items() if not message.startswith("could not be checked: ")} == set()
    assert {"quota-vcpus", "image-exists", "kms-key-enabled"} <= set(said)
    assert "UnauthorizedOperation" in said["vpc-exists"]
    assert "subnet-exists" not in said


def up(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.gpucluster("-c", str(file), *arguments)


@pytest.fixture
def file(control_plane: Any, tmp_path: Path) -> Path:
    from gpucluster.cluster import local_cloud

    found = tmp_path / "cluster.yaml"
    partition = {"name": "train", "instance_types": ["p4d.24xlarge"], "max_nodes": 2}
    found.write_text(json.dumps({"name": "Refused", "region": "us-east-1", "partitions": [partition]}))
    record = local_cloud.Record(control_plane.endpoint_url, "default", False, control_plane.secret)
    local_cloud.write(found, "Refused", record)
    return found


def stacks(control_plane: Any) -> dict[str, str]:
    """Stack -> status. Other tests may have prepared the account for CDK."""
    found = control_plane.client("cloudformation").describe_stacks()["Stacks"]
    return {each["StackName"]: each["StackStatus"] for each in found}


def test_up_exits_with_3_if_a_quota_is_too_small(control_plane: Any, file: Path, own: Callable[..., Any]) -> None:
    own("POST", "faults", {"kind": "quota", "quota_code": "L-417A185B", "value": 0})
    before = stacks(control_plane)
    done = up(file, "up")
    assert (done.returncode, done.stdout) == (3, "")
    said = "p4d on demand: at least 96 vCPUs are needed, but the quota is 0 [quota-vcpus]"
    assert said in done.stderr and "--quota-code L-417A185B --desired-value 96" in done.stderr
    planned = up(file, "plan", "--json")
    assert planned.returncode == 3
    assert "`up` would be refused: " in planned.stderr
    plan = json.loads(planned.stdout)
    assert {check["validator"]: check["level"] for check in plan["checks"]} == {
        "quota-vcpus": "error",
        "quota-vcpus-for-all": "warning",
    }
    assert stacks(control_plane).items() <= before.items(), "the stack of an earlier test may still be deleted"


def test_a_problem_that_the_deployed_cluster_has_prevents_no_other_change(
    control_plane: Any, place: Place, things: Things, file: Path
) -> None:
    """A Capacity Block ends, and its partition remains in the file."""
    from gpucluster.cluster import aws, online

    config = loads(things.cluster(name="Refused", budget=None), str(file))
    kept = {"Metadata": updates.metadata(config, availability_zone=ZONE)}
    resources = {"One": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "1"}}}
    cloudformation = control_plane.client("cloudformation")
    cloudformation.create_stack(StackName="Refused", TemplateBody=json.dumps({**kept, "Resources": resources}))
    cloudformation.get_waiter("stack_create_complete").wait(StackName="Refused", WaiterConfig={"Delay": 1})
    place.ec2.cancel_capacity_reservation(CapacityReservationId=things.reservation_id)

    def levels(**keys: Any) -> dict[str, list[str]]:
        changed = loads(things.cluster(name="Refused", budget=None, **keys), str(file))
        found: dict[str, list[str]] = {}
        for each in online.ask(changed, aws.connect(changed, file)):
            found.setdefault(each.validator, []).append(each.level)
        return found

    partitions = json.loads(things.cluster())["partitions"]
    changed = [{**each, "idle_minutes": 20, "min_nodes": 0} for each in partitions]
    again = {**partitions[1], "name": "again"}
    assert levels()["reservation-active"] == ["warning"]
    assert levels(partitions=changed)["reservation-active"] == ["warning"]
    assert levels(partitions=[*partitions, again])["reservation-active"] == ["warning", "error"]
    cloudformation.delete_stack(StackName="Refused")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="Refused", WaiterConfig={"Delay": 1})
    assert levels()["reservation-active"] == ["error"]


def test_up_exits_with_2_if_the_file_names_a_missing_resource(control_plane: Any, file: Path) -> None:
    keys = json.loads(file.read_text())
    file.write_text(json.dumps({**keys, "software": {"image": "ami-0123456789abcdef0"}}, indent=1))
    done = up(file, "up")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: software.image: the account sees no ami-0123456789abcdef0 in us-east-1 [image-exists]" in done.stderr
    assert up(file, "plan").returncode == 2
    file.write_text(json.dumps({**json.loads(file.read_text()), "silence": ["image-exists"]}))
    silenced = up(file, "plan")
    assert "image-exists" not in silenced.stderr and silenced.returncode == 0
