"""A cluster in a VPC that has its file systems and a volume already: found, mounted by their addresses, and kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node import addresses

from gpucluster import config
from gpucluster.cluster.online import LiveAccount
from gpucluster.config.checks import check_online
from localcloud.testing.census import census
from tests.cloud.assembly import InProcess
from tests.cloud.played_head import Head
from tests.cloud.test_examples import NAME, left
from tests.cloud.test_gpucluster_ways import head

CLUSTER = """
name: GpuCluster
region: us-east-1
availability_zone: us-east-1a
network: {{vpc_id: {vpc}, subnet_id: {subnet}}}
head_node: {{instance_type: m6i.large, volume_gib: 20, on_delete: delete, snapshot_days: 0}}
accounting: "off"
monitoring: {{dashboard: false}}
partitions:
  - {{name: train, instance_types: [p4d.24xlarge], max_nodes: 4}}
storage:
  - {{mount: /lustre, type: fsx-lustre, file_system_id: {lustre}}}
  - {{mount: /efs, type: efs, file_system_id: {efs}}}
  - {{mount: /home, type: fsx-openzfs, volume_id: {zfs}}}
  - {{mount: /old, type: ebs, volume_id: {volume}}}
  - {{mount: /disk, type: ebs, gib: {gib}, on_delete: delete}}
"""
OURS = ("file-system-", "fsx-", "efs-", "openzfs-", "volume-", "ebs-", "existing-")


@dataclass
class Theirs:
    """What is in the VPC before the cluster."""

    cloud: Any
    ids: dict[str, str]
    group: str

    def remove(self) -> None:
        fsx, efs, ec2 = (self.cloud.client(name) for name in ("fsx", "efs", "ec2"))
        (zfs,) = fsx.describe_volumes(VolumeIds=[self.ids["zfs"]])["Volumes"]
        for system in (self.ids["lustre"], zfs["FileSystemId"]):
            fsx.delete_file_system(FileSystemId=system)
        for target in efs.describe_mount_targets(FileSystemId=self.ids["efs"])["MountTargets"]:
            efs.delete_mount_target(MountTargetId=target["MountTargetId"])
        efs.delete_file_system(FileSystemId=self.ids["efs"])
        ec2.delete_volume(VolumeId=self.ids["volume"])
        ec2.delete_security_group(GroupId=self.group)
        ec2.delete_subnet(SubnetId=self.ids["subnet"])
        ec2.delete_vpc(VpcId=self.ids["vpc"])


def made(cloud: Any) -> Theirs:
    fsx, efs, ec2 = (cloud.client(name) for name in ("fsx", "efs", "ec2"))
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    for name in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{name: {"Value": True}})
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24", AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(VpcId=vpc, GroupName="files", Description="files")["GroupId"]
    ports = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 2049, "IpRanges": [{"CidrIp": "10.9.0.0/16"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[ports])
    place: dict[str, Any] = {"SubnetIds": [subnet], "SecurityGroupIds": [group], "StorageCapacity": 1200}
    scratch = {"DeploymentType": "SCRATCH_2"}
    lustre = fsx.create_file_system(
        FileSystemType="LUSTRE", FileSystemTypeVersion="2.15", LustreConfiguration=scratch, **place
    )["FileSystem"]
    settings = {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 64}
    zfs = fsx.create_file_system(FileSystemType="OPENZFS", OpenZFSConfiguration=settings, **place)["FileSystem"]
    exports = [{"ClientConfigurations": [{"Clients": "*", "Options": ["rw", "crossmnt", "no_root_squash"]}]}]
    parent = {"ParentVolumeId": zfs["OpenZFSConfiguration"]["RootVolumeId"], "NfsExports": exports}
    home = fsx.create_volume(VolumeType="OPENZFS", Name="home", OpenZFSConfiguration=parent)["Volume"]
    system = efs.create_file_system(CreationToken="theirs")["FileSystemId"]
    efs.create_mount_target(FileSystemId=system, SubnetId=subnet, SecurityGroups=[group])
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=10)["VolumeId"]
    ids = {"vpc": vpc, "subnet": subnet, "lustre": lustre["FileSystemId"], "efs": system}
    return Theirs(cloud, {**ids, "zfs": home["VolumeId"], "volume": volume}, group)


@pytest.fixture
def theirs(bootstrapped: Any) -> Iterator[Theirs]:
    before = census(bootstrapped.client)
    found = made(bootstrapped)
    yield found
    found.remove()
    assert left(before, census(bootstrapped.client)) == {}


def complaints(theirs: Theirs, text: str) -> list[str]:
    outcome = check_online(config.loads(text), LiveAccount(theirs.cloud.client))
    return [f"{each.validator}: {each.message}" for each in outcome.findings if each.validator.startswith(OURS)]


def test_what_exists_is_found_mounted_and_kept(theirs: Theirs, tmp_path: Path) -> None:
    cloud, text = theirs.cloud, CLUSTER.format(gib=20, **theirs.ids)
    assert complaints(theirs, text) == []
    deployed = InProcess(tmp_path / "cluster.yaml", cloud, NAME)
    deployed.file.write_text(text)
    with Head(cloud, NAME):
        deployed.deploy()
        _the_head_node_finds_each(cloud, text)
        _the_head_node_attaches_both_volumes(theirs)
        deployed.file.write_text(CLUSTER.format(gib=30, **theirs.ids))
        deployed.deploy()
        sizes = {each["Size"] for each in cloud.client("ec2").describe_volumes()["Volumes"]}
        assert {10, 30} <= sizes, "the new one has grown, and the other one is as it was"
    deployed.destroy()
    assert [each["State"] for each in cloud.client("ec2").describe_volumes(VolumeIds=[theirs.ids["volume"]])["Volumes"]]
    assert len(cloud.client("fsx").describe_file_systems()["FileSystems"]) == 2


def _the_head_node_finds_each(cloud: Any, text: str) -> None:
    """With the head node's own permissions."""
    fsx = head(cloud, "fsx")

    def ask(action: str, **arguments: Any) -> Any:
        calls = {"DescribeVolumes": fsx.describe_volumes, "DescribeFileSystems": fsx.describe_file_systems}
        return calls[action](**arguments)

    mounts = {each.mount: each.for_nodes() for each in config.loads(text).storage}
    lustre, home = (addresses.address(mounts[mount], ask) for mount in ("/lustre", "/home"))
    assert len(lustre["mount_name"]) == 8 and lustre["version"] == "2.15"
    assert home["mount_name"] == "/fsx/home" and ".fsx.us-east-1." in home["dns_name"]


def _the_head_node_attaches_both_volumes(theirs: Theirs) -> None:
    ec2, mine = theirs.cloud.client("ec2"), head(theirs.cloud, "ec2")
    (instance,) = (
        each["InstanceId"]
        for reservation in ec2.describe_instances()["Reservations"]
        for each in reservation["Instances"]
        if {"Key": "gpucluster:role", "Value": "head"} in each.get("Tags", ()) and each["State"]["Name"] == "running"
    )
    tag = [{"Name": "tag:Name", "Values": [f"{NAME}-disk"]}]
    (disk,) = ec2.describe_volumes(Filters=tag)["Volumes"]
    for volume, device in ((disk["VolumeId"], "/dev/sdg"), (theirs.ids["volume"], "/dev/sdh")):
        mine.attach_volume(VolumeId=volume, InstanceId=instance, Device=device)
        mine.detach_volume(VolumeId=volume, InstanceId=instance)


def test_what_nodes_could_not_mount_is_named_before(theirs: Theirs) -> None:
    cloud, text = theirs.cloud, CLUSTER.format(gib=20, **theirs.ids)
    ec2 = cloud.client("ec2")
    ports = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 2049, "IpRanges": [{"CidrIp": "10.9.0.0/16"}]}
    ec2.revoke_security_group_ingress(GroupId=theirs.group, IpPermissions=[ports])
    said = complaints(theirs, text)
    assert len(said) == 3 and all(each.startswith("file-system-admits-nodes: the security group") for each in said)
    gone = text.replace(theirs.ids["volume"], "vol-0123456789abcdef9").replace(
        theirs.ids["lustre"], "fs-0123456789abcdef9"
    )
    found = [each.partition(":")[0] for each in complaints(theirs, gone)]
    assert {"volume-exists", "file-system-exists"} <= set(found)
