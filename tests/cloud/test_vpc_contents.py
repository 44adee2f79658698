"""What is not the cluster's in its VPC: `down` names it before it deletes anything. CDK does not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from gpucluster.cluster import deployment, stack, tagged_instances
from gpucluster.cluster.deletion import vpc_contents
from gpucluster.cluster.progress import Progress
from localcloud.testing.place import DLAMI

NAME = "Crowded"
TAGS = [{"Key": "gpucluster:cluster", "Value": NAME}, {"Key": "gpucluster:role", "Value": "head"}]
PLACE = {"VpcId": {"Ref": "Vpc"}, "AvailabilityZone": "us-east-1a"}
TEMPLATE = {
    "Parameters": {"Image": {"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "Default": DLAMI}},
    "Resources": {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {
            "CidrBlock": "10.7.0.0/16", "EnableDnsSupport": True, "EnableDnsHostnames": True,
        }},
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {**PLACE, "CidrBlock": "10.7.1.0/24"}},
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "GroupDescription": "nodes"},
        },
        "Head": {
            "Type": "AWS::EC2::Instance",
            "Properties": {
                "ImageId": {"Ref": "Image"}, "InstanceType": "m6i.large", "SubnetId": {"Ref": "Subnet"},
                "SecurityGroupIds": [{"Ref": "Group"}], "Tags": TAGS,
            },
        },
    },
}  # fmt: skip


@dataclass(frozen=True)
class WithoutCdk(deployment.Deployment):
    """`cdk destroy` asks CloudFormation to delete the stack."""

    def _run(self, *_: object, **__: object) -> list[str]:
        self.clients.cloudformation.delete_stack(StackName=self.name)
        for _each in stack.follow(self.clients.cloudformation, self.name, interval_s=0.2):
            pass
        return []


@dataclass
class Crowded:
    deployed: deployment.Deployment
    said: list[str]

    @property
    def ec2(self) -> Any:
        return self.deployed.clients.ec2

    def id(self, logical_id: str) -> str:
        found = self.deployed.clients.cloudformation.describe_stack_resource(
            StackName=NAME, LogicalResourceId=logical_id
        )
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def group(self, name: str, **tags: str) -> str:
        vpc = self.id("Vpc")
        made = self.ec2.create_security_group(VpcId=vpc, GroupName=name, Description=name)["GroupId"]
        if tags:
            self.ec2.create_tags(Resources=[made], Tags=[{"Key": k, "Value": v} for k, v in tags.items()])
        return str(made)

    def endpoint(self, service: str, group: str, **tags: str) -> str:
        given = [{"ResourceType": "vpc-endpoint", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
        made = self.ec2.create_vpc_endpoint(
            VpcId=self.id("Vpc"), ServiceName=f"com.amazonaws.us-east-1.{service}", VpcEndpointType="Interface",
            SubnetIds=[self.id("Subnet")], SecurityGroupIds=[group], **({"TagSpecifications": given} if tags else {}),
        )  # fmt: skip
        return str(made["VpcEndpoint"]["VpcEndpointId"])


@pytest.fixture
def crowded(control_plane: Any, tmp_path: Path) -> Iterator[Crowded]:
    clients = deployment.Clients(**{each.name: control_plane.client(each.name) for each in fields(deployment.Clients)})
    said: list[str] = []
    deployed = WithoutCdk(NAME, "us-east-1", tmp_path / "cluster.yaml", tmp_path, dict, clients, said.append)
    clients.cloudformation.create_stack(StackName=NAME, TemplateBody=json.dumps(TEMPLATE))
    for _ in stack.follow(clients.cloudformation, NAME, interval_s=0.2):
        pass
    assert deployed.status() == "CREATE_COMPLETE"
    yield Crowded(deployed, said)
    if deployed.status():
        deployed.down({})
    assert deployed.status() is None


def test_the_cluster_alone_is_in_nobodys_way(crowded: Crowded) -> None:
    assert crowded.deployed.in_the_way() == []


@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_a_group_whose_rules_name_the_clusters_is_in_the_way_of_a_cluster_in_an_existing_vpc(
    crowded: Crowded, direction: str
) -> None:
    """EC2 would refuse to delete the cluster's group when its head node and volume are gone."""
    other = crowded.group("other")
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "UserIdGroupPairs": [{"GroupId": crowded.id("Group")}]}
    getattr(crowded.ec2, f"authorize_security_group_{direction}")(GroupId=other, IpPermissions=[rule])
    try:
        assert crowded.deployed.in_the_way(network_stays=True) == [
            f"security group {other} (other), whose rules name the cluster's"
        ]
    finally:
        crowded.ec2.delete_security_group(GroupId=other)


def test_a_node_that_the_head_launches_meanwhile_is_nobodys(crowded: Crowded) -> None:
    ec2 = crowded.ec2
    image = ec2.describe_instances(InstanceIds=[crowded.id("Head")])["Reservations"][0]["Instances"][0]["ImageId"]
    own = crowded.deployed._belongings()
    tags = [{"Key": f"gpucluster:{key}", "Value": value} for key, value in (("cluster", NAME), ("role", "compute"))]
    ec2.run_instances(
        ImageId=image, InstanceType="m5.large", SubnetId=crowded.id("Subnet"), MinCount=1, MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )  # fmt: skip
    assert vpc_contents.others(ec2, own) == []


def test_everything_of_others_is_named(crowded: Crowded) -> None:
    ec2, subnet, vpc = crowded.ec2, crowded.id("Subnet"), crowded.id("Vpc")
    image = ec2.describe_instances(InstanceIds=[crowded.id("Head")])["Reservations"][0]["Instances"][0]["ImageId"]
    with ExitStack() as undone:
        run = ec2.run_instances(ImageId=image, InstanceType="m5.large", SubnetId=subnet, MinCount=1, MaxCount=1)
        instance = run["Instances"][0]["InstanceId"]
        undone.callback(ec2.terminate_instances, InstanceIds=[instance])
        made = ec2.create_network_interface(SubnetId=subnet, Description="mine")["NetworkInterface"]
        interface = made["NetworkInterfaceId"]
        undone.callback(ec2.delete_network_interface, NetworkInterfaceId=interface)
        other = ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.2.0/24")["Subnet"]["SubnetId"]
        undone.callback(ec2.delete_subnet, SubnetId=other)
        group = crowded.group("mine")
        undone.callback(ec2.delete_security_group, GroupId=group)
        endpoint = crowded.endpoint("ssm", group)
        undone.callback(ec2.delete_vpc_endpoints, VpcEndpointIds=[endpoint])
        found = crowded.deployed.in_the_way()
        assert f"instance {instance} in {subnet}" in found
        assert f"network interface {interface} in {subnet}, which nothing uses (mine)" in found
        assert f"security group {group} (mine)" in found
        assert f"subnet {other}" in found
        assert f"VPC endpoint {endpoint} (com.amazonaws.us-east-1.ssm)" in found
        assert not [each for each in found if crowded.id("Head") in each or crowded.id("Group") in each]
        progress = Progress(crowded.said.append, lambda: "")
        progress.heard("Error: it failed")
        failed = crowded.deployed._failed("destroy", progress, "down")
        assert f"in the way: instance {instance} in {subnet}" in str(failed)


def test_firewall_managers_group_on_the_head_node_is_in_nobodys_way(crowded: Crowded) -> None:
    """Its name: FMManagedSecurityGroup…. While it is on a node nobody can delete it: `down` must not wait for that."""
    ec2, head = crowded.ec2, crowded.id("Head")
    theirs = crowded.group(f"FMManagedSecurityGroup0123-sg-0123-{crowded.id('Vpc')}")
    assert f"security group {theirs} (FMManaged" in "".join(crowded.deployed.in_the_way())
    ec2.modify_instance_attribute(InstanceId=head, Groups=[crowded.id("Group"), theirs])
    assert crowded.deployed.in_the_way() == []
    ec2.modify_instance_attribute(InstanceId=head, Groups=[crowded.id("Group")])
    ec2.delete_security_group(GroupId=theirs)


def test_where_the_network_stays_only_users_of_its_groups_are_in_the_way(crowded: Crowded) -> None:
    ec2, subnet = crowded.ec2, crowded.id("Subnet")
    made = [
        ec2.create_network_interface(SubnetId=subnet, Groups=[group])["NetworkInterface"]["NetworkInterfaceId"]
        for group in (crowded.id("Group"), crowded.group("theirs"))
    ]
    try:
        (found,) = crowded.deployed.in_the_way(network_stays=True)
        assert made[0] in found
    finally:
        for each in made:
            ec2.delete_network_interface(NetworkInterfaceId=each)
        theirs = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["theirs"]}])["SecurityGroups"]
        ec2.delete_security_group(GroupId=theirs[0]["GroupId"])


def test_what_guardduty_made_is_deleted_with_the_cluster(crowded: Crowded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tag: GuardDuty user guide, "Disabling, uninstalling, and cleaning up resources in Runtime Monitoring"."""
    monkeypatch.setattr(vpc_contents, "POLL_S", 0.1)
    head = crowded.id("Head")
    group = crowded.group(f"GuardDutyManagedSecurityGroup-{crowded.id('Vpc')}", GuardDutyManaged="true")
    endpoint = crowded.endpoint("guardduty-data", group, GuardDutyManaged="true")
    assert crowded.deployed.in_the_way() == []
    crowded.deployed.down({})
    assert crowded.deployed.status() is None
    assert "terminating the head node and no compute node" in crowded.said
    ids = [{"Name": "group-id", "Values": [group]}]
    assert crowded.ec2.describe_security_groups(Filters=ids)["SecurityGroups"] == []
    left = crowded.ec2.describe_vpc_endpoints(Filters=[vpc_contents.GUARDDUTY])["VpcEndpoints"]
    assert endpoint not in [each["VpcEndpointId"] for each in left if each["State"].lower() != "deleted"]
    states = tagged_instances.NOT_TERMINATED[:2]
    assert head not in [each["InstanceId"] for each in tagged_instances.find(crowded.ec2, states, cluster=NAME)]
