"""What an account had before the cluster: a VPC with its endpoint for SSH, file systems, a volume with files."""

from __future__ import annotations

from typing import Any

from bed import Bed, wait_for

ZONE = "us-east-1a"
ADDRESSES, PRIVATE, PUBLIC = "10.9.0.0/16", "10.9.1.0/24", "10.9.2.0/24"
LUSTRE_TO_NFS = (988, 2049)


class Network:
    """A VPC as an organization hands it out: a private subnet behind a NAT gateway."""

    def __init__(self, ec2: Any) -> None:
        self._ec2 = ec2
        self.vpc = ec2.create_vpc(CidrBlock=ADDRESSES)["Vpc"]["VpcId"]
        for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
            ec2.modify_vpc_attribute(VpcId=self.vpc, **{attribute: {"Value": True}})
        self.subnet, public = (
            ec2.create_subnet(VpcId=self.vpc, CidrBlock=block, AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
            for block in (PRIVATE, PUBLIC)
        )
        internet = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=internet, VpcId=self.vpc)
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]["NatGatewayId"]
        for subnet, gateway in ((public, {"GatewayId": internet}), (self.subnet, {"NatGatewayId": nat})):
            table = ec2.create_route_table(VpcId=self.vpc)["RouteTable"]["RouteTableId"]
            ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **gateway)
            ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)

    def add_endpoint(self) -> str:
        """For SSH."""
        made = self._ec2.create_instance_connect_endpoint(SubnetId=self.subnet, SecurityGroupIds=[self.group("door")])
        return str(made["InstanceConnectEndpoint"]["InstanceConnectEndpointId"])

    def group(self, name: str, ports: tuple[int, int] | None = None) -> str:
        """A security group that admits these ports, the first to the last, from the VPC's addresses."""
        group = str(self._ec2.create_security_group(GroupName=name, Description=name, VpcId=self.vpc)["GroupId"])
        if ports:
            place = {"FromPort": ports[0], "ToPort": ports[1], "IpRanges": [{"CidrIp": ADDRESSES}]}
            self._ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[{"IpProtocol": "tcp", **place}])
        return group

    def config(self, text: str) -> str:
        """The cluster file `text`, in this VPC."""
        region = "region: us-east-1\n"
        assert region in text, text
        here = f"network: {{vpc_id: {self.vpc}, subnet_id: {self.subnet}}}\n"
        return text.replace(region, f"{region}availability_zone: {ZONE}\n{here}", 1)


class FileSystems:
    """One of each kind, empty."""

    def __init__(self, bed: Bed, network: Network) -> None:
        self._fsx = bed.client("fsx")
        self._place = {"SubnetIds": [network.subnet], "SecurityGroupIds": [network.group("files", LUSTRE_TO_NFS)]}
        self.lustre = self._system(
            "LUSTRE", 1200, FileSystemTypeVersion="2.15", LustreConfiguration={"DeploymentType": "SCRATCH_2"}
        )["FileSystemId"]
        self.openzfs, self.ontap = self._openzfs_volume(), self._ontap_volume()
        efs = bed.client("efs")
        self.efs = efs.create_file_system(CreationToken="theirs")["FileSystemId"]
        efs.create_mount_target(
            FileSystemId=self.efs, SubnetId=network.subnet, SecurityGroups=self._place["SecurityGroupIds"]
        )

    def _system(self, kind: str, gib: int, **more: Any) -> dict[str, Any]:
        made = self._fsx.create_file_system(FileSystemType=kind, StorageCapacity=gib, **more, **self._place)
        return dict(made["FileSystem"])

    def _openzfs_volume(self) -> str:
        settings = {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 64}
        made = self._system("OPENZFS", 64, OpenZFSConfiguration=settings)
        parent = {"ParentVolumeId": made["OpenZFSConfiguration"]["RootVolumeId"]}
        return self._volume("OPENZFS", OpenZFSConfiguration=parent)

    def _ontap_volume(self) -> str:
        settings = {"DeploymentType": "SINGLE_AZ_1", "ThroughputCapacity": 128}
        made = self._system("ONTAP", 1024, OntapConfiguration=settings)
        machine = self._fsx.create_storage_virtual_machine(FileSystemId=made["FileSystemId"], Name="svm")
        found = machine["StorageVirtualMachine"]["StorageVirtualMachineId"]
        return self._volume(
            "ONTAP",
            OntapConfiguration={"StorageVirtualMachineId": found, "JunctionPath": "/vol1", "SizeInMegabytes": 1024},
        )

    def _volume(self, kind: str, **settings: Any) -> str:
        return str(self._fsx.create_volume(VolumeType=kind, Name="vol1", **settings)["Volume"]["VolumeId"])


def volume_with_a_file(bed: Bed) -> str:
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
    wait_for("the volume", lambda: volume_state(ec2, volume) == "available", 60)
    return volume


def volume_state(ec2: Any, volume: str) -> str:
    return str(ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"])
