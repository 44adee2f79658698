"""File systems and a volume that were in a VPC before the cluster: jobs on two nodes read and write each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from bed import Bed, wait_for
from beds import opened

PUBLIC, PRIVATE = "10.9.0.0/24", "10.9.1.0/24"
ZONE = "us-east-1a"
MOUNTS = ("/lustre", "/efs", "/zfs", "/old")
KEYS = """
availability_zone: us-east-1a
network: {{vpc_id: {vpc}, subnet_id: {subnet}}}
storage:
  - {{mount: /lustre, type: fsx-lustre, file_system_id: {lustre}}}
  - {{mount: /efs, type: efs, file_system_id: {efs}}}
  - {{mount: /zfs, type: fsx-openzfs, volume_id: {zfs}}}
"""
DISK = "  - {mount: /old, type: ebs, volume_id: VOLUME}\n"


def network(ec2: Any) -> dict[str, str]:
    """A VPC with a private subnet behind a NAT gateway."""
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    for name in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{name: {"Value": True}})
    public, private = (
        ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
        for cidr in (PUBLIC, PRIVATE)
    )
    door = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=door, VpcId=vpc)
    _leads(ec2, vpc, public, GatewayId=door)
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]["NatGatewayId"]
    _leads(ec2, vpc, private, NatGatewayId=nat)
    group = ec2.create_security_group(VpcId=vpc, GroupName="files", Description="files")["GroupId"]
    ports = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 2049, "IpRanges": [{"CidrIp": "10.9.0.0/16"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[ports])
    return {"vpc": vpc, "subnet": private, "group": group}


def _leads(ec2: Any, vpc: str, subnet: str, **target: str) -> None:
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **target)
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)


def file_systems(bed: Bed, found: dict[str, str]) -> dict[str, str]:
    fsx, efs = bed.client("fsx"), bed.client("efs")
    place: dict[str, Any] = {"SubnetIds": [found["subnet"]], "SecurityGroupIds": [found["group"]]}
    lustre = fsx.create_file_system(
        FileSystemType="LUSTRE", FileSystemTypeVersion="2.15", StorageCapacity=1200,
        LustreConfiguration={"DeploymentType": "SCRATCH_2"}, **place,
    )["FileSystem"]["FileSystemId"]  # fmt: skip
    settings = {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 64}
    zfs = fsx.create_file_system(FileSystemType="OPENZFS", StorageCapacity=64, OpenZFSConfiguration=settings, **place)[
        "FileSystem"
    ]
    parent = {"ParentVolumeId": zfs["OpenZFSConfiguration"]["RootVolumeId"]}
    volume = fsx.create_volume(VolumeType="OPENZFS", Name="vol1", OpenZFSConfiguration=parent)["Volume"]["VolumeId"]
    system = efs.create_file_system(CreationToken="theirs")["FileSystemId"]
    efs.create_mount_target(FileSystemId=system, SubnetId=found["subnet"], SecurityGroups=[found["group"]])
    return {"lustre": lustre, "efs": system, "zfs": volume}


def volume_with_data(bed: Bed) -> str:
    """The head node makes a file system on it and writes a file, and lets it go, as another machine would have."""
    ec2 = bed.client("ec2")
    volume = str(ec2.create_volume(AvailabilityZone=ZONE, Size=1)["VolumeId"])
    (head,) = bed.instances("head")
    ec2.attach_volume(VolumeId=volume, InstanceId=head, Device="/dev/sdp")
    device = f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume.replace('-', '')}"
    script = (
        f"for _ in $(seq 60); do [ -b {device} ] && break; sleep 1; done; mkfs.ext4 -q {device}; mount {device} /mnt; "
        "echo kept >/mnt/before; chmod 1777 /mnt; umount /mnt"
    )
    bed.ssh("sudo", "bash", "-ec", script)
    ec2.detach_volume(VolumeId=volume, InstanceId=head)
    wait_for("the volume", lambda: _state(ec2, volume) == "available", 60)
    return volume


def _state(ec2: Any, volume: str) -> str:
    return str(ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"])


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with opened(replace(Bed.make(tmp_path_factory.mktemp("moved")), python="/home/plain")) as bed:
        found = network(bed.client("ec2"))
        text = bed.config.read_text().rstrip() + KEYS.format(**found, **file_systems(bed, found))
        bed.config.write_text(text)
        bed.up()
        bed.ssh("sh", "-c", f"sudo mkdir -p {bed.python}/bin && sudo ln -s /usr/bin/python3 {bed.python}/bin/python")
        # Nobody but their owner opens them to all users: the cluster changes no mode of theirs.
        bed.ssh("sudo", "chmod", "1777", "/lustre", "/efs")
        bed.config.write_text(text + DISK.replace("VOLUME", volume_with_data(bed)))
        bed.up()
        yield bed


def test_jobs_on_two_nodes_read_and_write_each(moved: Bed) -> None:
    moved.ssh("bash", "-ec", "; ".join(f"echo head >{mount}/head" for mount in MOUNTS))
    reads = "; ".join(f"cat {mount}/head; hostname >{mount}/$(hostname)" for mount in MOUNTS)
    done = moved.submit("--nodes", "2", "--launcher", "srun", "--follow", "--", "bash", "-ec", reads)
    assert done.exit_code == 0, done.log
    nodes = done.result["node_list"]
    assert len(nodes) == 2
    for mount in MOUNTS:
        written = moved.ssh("bash", "-ec", f"cat {mount}/{nodes[0]} {mount}/{nodes[1]}").split()
        assert written == nodes, mount


def test_what_was_on_the_volume_is_still_there(moved: Bed) -> None:
    assert moved.ssh("cat", "/old/before") == "kept\n"
    assert moved.ssh("findmnt", "--noheadings", "--output", "FSTYPE", "/old").strip() == "ext4"
