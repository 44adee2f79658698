"""Networks and purchases of our stack on the control plane: what a deployment makes of them, and what the head node's
role may then launch.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.testing.census import census
from tests.cloud.assembly import InProcess
from tests.cloud.played_head import Head
from tests.cloud.test_examples import NAME, left

BASE = """
name: GpuCluster
region: us-east-1
availability_zone: us-east-1a
head_node: {instance_type: m6i.large, volume_gib: 20, on_delete: delete}
accounting: "off"
"""
SPOT = """
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 2, purchase: spot}
parameter_servers: {instance_type: m4.4xlarge, max_nodes: 2}
"""


@contextmanager
def deployed(control_plane: Any, folder: Path, text: str) -> Iterator[InProcess]:
    """A deployed cluster, which is destroyed at the end and must leave nothing."""
    before = census(control_plane.client)
    here = InProcess(folder / "cluster.yaml", control_plane, NAME)
    here.file.write_text(text)
    try:
        with Head(control_plane, NAME):
            here.deploy()
            yield here
    finally:
        here.destroy()
    assert left(before, census(control_plane.client)) == {}


def outputs(control_plane: Any) -> dict[str, str]:
    (stack,) = control_plane.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def head(control_plane: Any, service: str) -> Any:
    """A client with the head node's credentials."""
    url = f"{control_plane.endpoint_url}/_localcloud/credentials?instance_id={outputs(control_plane)['HeadInstanceId']}"
    with urllib.request.urlopen(url, timeout=60) as response:
        held = json.load(response)
    return control_plane.client(
        service,
        aws_access_key_id=held["access_key_id"],
        aws_secret_access_key=held["secret_access_key"],
        aws_session_token=held["session_token"],
    )


def launch(control_plane: Any, partition: str, *, ends: bool = True, **request: Any) -> list[dict[str, Any]]:
    """Launches with the head node's request. `ends`: and terminates what was launched."""
    name = f"/gpucluster/{NAME}/partitions/{partition}"
    value = json.loads(control_plane.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    template = value["instance_types"][0]
    chosen = {"LaunchTemplateId": template["launch_template_id"], "Version": str(template["version"])}
    ours = {"LaunchTemplate": chosen, "MinCount": 1, "MaxCount": 1}
    found = head(control_plane, "ec2").run_instances(**(ours | request))["Instances"]
    if ends:
        terminate(control_plane, [each["InstanceId"] for each in found])
    return list(found)


def terminate(control_plane: Any, ids: list[str]) -> None:
    head(control_plane, "ec2").terminate_instances(InstanceIds=ids)


def balancers(control_plane: Any) -> list[dict[str, Any]]:
    return list(control_plane.client("elbv2").describe_load_balancers()["LoadBalancers"])


def test_ssh_from_named_networks_and_spot_nodes_with_parameter_servers(bootstrapped: Any, tmp_path: Path) -> None:
    ssh_from = "network: {{ssh_from: [{}]}}\n"
    with deployed(bootstrapped, tmp_path, BASE + SPOT + ssh_from.format("203.0.113.0/24")) as here:
        (balancer,) = balancers(bootstrapped)
        assert outputs(bootstrapped)["SshHost"] == balancer["DNSName"]
        (group,) = bootstrapped.client("elbv2").describe_target_groups()["TargetGroups"]
        (target,) = bootstrapped.client("elbv2").describe_target_health(TargetGroupArn=group["TargetGroupArn"])[
            "TargetHealthDescriptions"
        ]
        assert target["Target"] == {"Id": outputs(bootstrapped)["HeadInstanceId"], "Port": 22}
        (node,), (server,) = launch(bootstrapped, "train"), launch(bootstrapped, "ps")
        assert node["InstanceLifecycle"] == "spot" and "InstanceLifecycle" not in server
        assert node["Placement"]["GroupName"] == server["Placement"]["GroupName"] != ""
        assert node.get("PublicIpAddress") is None and server.get("PublicIpAddress") is None
        here.file.write_text(BASE + SPOT + ssh_from.format("203.0.113.0/24, 198.51.100.7/32"))
        here.deploy()
        assert balancers(bootstrapped)[0]["LoadBalancerArn"] == balancer["LoadBalancerArn"]
        (rules,) = (
            each["IpPermissions"]
            for each in bootstrapped.client("ec2").describe_security_groups(GroupIds=balancer["SecurityGroups"])[
                "SecurityGroups"
            ]
        )
        assert {each["CidrIp"] for rule in rules for each in rule["IpRanges"]} == {"203.0.113.0/24", "198.51.100.7/32"}
        here.file.write_text(BASE + SPOT)
        here.deploy()
        assert not balancers(bootstrapped) and "SshHost" not in outputs(bootstrapped)


def refusal(control_plane: Any, **request: Any) -> str:
    with pytest.raises(ClientError) as error:
        launch(control_plane, "train", **request)
    return str(error.value.response["Error"]["Code"])


def test_the_head_can_launch_only_from_its_templates_and_into_its_reservation(
    bootstrapped: Any, tmp_path: Path
) -> None:
    ec2 = bootstrapped.client("ec2")
    reservation = ec2.create_capacity_reservation(
        InstanceType="p4d.24xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=1,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationId"]
    text = f"""
partitions:
  - {{name: train, instance_types: [p4d.24xlarge], max_nodes: 2, purchase: reservation,
     reservation_id: {reservation}, placement_group: none}}
"""
    try:
        with deployed(bootstrapped, tmp_path, BASE + text):
            (node,) = launch(bootstrapped, "train")
            assert node["CapacityReservationId"] == reservation
            assert refusal(bootstrapped, InstanceType="g5.xlarge") == "UnauthorizedOperation"
            assert refusal(bootstrapped, MetadataOptions={"HttpTokens": "optional"}) == "UnauthorizedOperation"
            foreign = ec2.create_launch_template(
                LaunchTemplateName="foreign",
                LaunchTemplateData={"ImageId": node["ImageId"], "InstanceType": "m5.large"},
            )["LaunchTemplate"]["LaunchTemplateId"]
            stolen = {"LaunchTemplateId": foreign, "Version": "1"}
            assert refusal(bootstrapped, LaunchTemplate=stolen) == "UnauthorizedOperation"
            ec2.delete_launch_template(LaunchTemplateId=foreign)
    finally:
        ec2.cancel_capacity_reservation(CapacityReservationId=reservation)


PLAIN = """
partitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 2}]
"""


def test_a_cluster_in_an_existing_vpc_creates_none_and_does_not_delete_it(bootstrapped: Any, tmp_path: Path) -> None:
    ec2 = bootstrapped.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.1.0/24", AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    vpcs = len(ec2.describe_vpcs()["Vpcs"])
    with deployed(bootstrapped, tmp_path, BASE + PLAIN + f"network: {{vpc_id: {vpc}, subnet_id: {subnet}}}\n"):
        assert len(ec2.describe_vpcs()["Vpcs"]) == vpcs
        (node,) = launch(bootstrapped, "train")
        described = ec2.describe_instances(InstanceIds=[outputs(bootstrapped)["HeadInstanceId"]])
        for each in (node, described["Reservations"][0]["Instances"][0]):
            assert each["SubnetId"] == subnet and each.get("PublicIpAddress") is None
    assert ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)


MOVED_IN = """
head_node: {{instance_type: m6i.large, volume_gib: 20, on_delete: delete, security_groups: [{group}]}}
partitions: [{{name: train, instance_types: [g5.12xlarge], max_nodes: 2, security_groups: [{group}]}}]
network: {{vpc_id: {vpc}, subnet_id: {subnet}}}
tags: {{team: vision}}
security: {{role_prefix: /teams/vision-, policies: {{head: [{policy}], nodes: [{policy}], jobs: [{policy}]}}}}
"""


def test_a_head_node_may_launch_with_the_users_tags_groups_and_role_names(bootstrapped: Any, tmp_path: Path) -> None:
    ec2, iam = bootstrapped.client("ec2"), bootstrapped.client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.1.0/24", AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="licences", Description="x", VpcId=vpc)["GroupId"]
    listing = {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [listing]})
    policy = iam.create_policy(PolicyName="team", PolicyDocument=document)["Policy"]["Arn"]
    base = BASE.replace("head_node: {instance_type: m6i.large, volume_gib: 20, on_delete: delete}\n", "")
    with deployed(bootstrapped, tmp_path, base + MOVED_IN.format(vpc=vpc, subnet=subnet, group=group, policy=policy)):
        (node,) = launch(bootstrapped, "train")
        described = ec2.describe_instances(InstanceIds=[outputs(bootstrapped)["HeadInstanceId"]])
        for each in (node, described["Reservations"][0]["Instances"][0]):
            assert {"Key": "team", "Value": "vision"} in each["Tags"]
            assert group in {found["GroupId"] for found in each["SecurityGroups"]}
            assert ":instance-profile/teams/vision-GpuCluster-" in each["IamInstanceProfile"]["Arn"]
        assert head(bootstrapped, "s3").list_buckets()["Buckets"], "by the user's policy"
        names = [each["RoleName"] for each in iam.list_roles(PathPrefix="/teams/")["Roles"]]
        assert {name.split("-")[2] for name in names} >= {"HeadRole", "ComputeRole", "StorageJobsRole"}
    iam.delete_policy(PolicyArn=policy)
    ec2.delete_security_group(GroupId=group)
    ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)


def test_a_cluster_without_internet_has_endpoints_instead(bootstrapped: Any, tmp_path: Path) -> None:
    ec2 = bootstrapped.client("ec2")
    image = bootstrapped.client("ssm").get_parameter(
        Name="/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
    )["Parameter"]["Value"]
    text = BASE + PLAIN + f"software: {{image: {image}}}\nnetwork: {{internet: none}}\n"
    with deployed(bootstrapped, tmp_path, text):
        (network,) = ec2.describe_vpcs(Filters=[{"Name": "tag:gpucluster:cluster", "Values": [NAME]}])["Vpcs"]
        own = [{"Name": "vpc-id", "Values": [network["VpcId"]]}]  # another test's may be listed as deleted
        made = ec2.describe_vpc_endpoints(Filters=own)["VpcEndpoints"]
        interfaces = {each["ServiceName"] for each in made if each["VpcEndpointType"] == "Interface"}
        regional = ("ec2", "ssm", "secretsmanager", "logs", "monitoring")
        assert interfaces == {*(f"com.amazonaws.us-east-1.{each}" for each in regional), "com.amazonaws.route53"}
        tagged = [{"Name": "tag:gpucluster:cluster", "Values": [NAME]}]
        assert not ec2.describe_internet_gateways(Filters=tagged)["InternetGateways"]
        live = [{"Name": "state", "Values": ["pending", "available"]}]
        assert not ec2.describe_nat_gateways(Filters=tagged + live)["NatGateways"]
        (node,) = launch(bootstrapped, "train")
        assert node["SubnetId"]


MOVED = """
partitions:
  - name: train
    instance_types: [c5.18xlarge]
    max_nodes: 2
    threads_per_core: 1
    root_volume: {gib: 150, iops: 4000, throughput_mibps: 500}
slurm: {memory: allocated, slurm_conf: KillWait=45}
"""


def test_ec2_takes_root_disks_and_threads_of_the_file(bootstrapped: Any, tmp_path: Path) -> None:
    root = "root_volume: {gib: 120, throughput_mibps: 250}, threads_per_core: 1, "
    text = BASE.replace("{instance_type", f"{{{root}instance_type") + MOVED
    with deployed(bootstrapped, tmp_path, text):
        node = launch(bootstrapped, "train", ends=False)[0]["InstanceId"]
        assert disk(bootstrapped, node) == (150, 4000, 500)
        assert disk(bootstrapped, outputs(bootstrapped)["HeadInstanceId"]) == (120, 3000, 250)
        terminate(bootstrapped, [node])


def disk(control_plane: Any, instance: str) -> tuple[int, int, int]:
    volumes = control_plane.client("ec2").describe_volumes()["Volumes"]
    (found,) = [
        each
        for each in volumes
        for place in each["Attachments"]
        if (place["InstanceId"], place["Device"]) == (instance, "/dev/sda1")
    ]
    return found["Size"], found["Iops"], found["Throughput"]
