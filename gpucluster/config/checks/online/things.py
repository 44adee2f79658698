"""Existing resources that the file may name: the AWS call that finds each, and the error codes if it does not exist."""

from __future__ import annotations

from dataclasses import dataclass

from gpucluster.config.checks.online.account import Account, Answer, Refused


@dataclass(frozen=True)
class Thing:
    service: str
    operation: str
    parameter: str
    """The parameter for the name, or for a list of names."""
    answer: str
    gone: tuple[str, ...]
    """Prefixes of the error codes for a resource that does not exist."""

    def look_up(self, account: Account, name: str | None) -> Answer | None:
        """None if it does not exist or is not named. Raises Refused if AWS refuses to answer."""
        if name is None:
            return None
        named = [name] if self.parameter.endswith("s") else name
        deprecated = {"IncludeDeprecated": True} if self.operation == "describe_images" else {}
        try:
            found = account.ask(self.service, self.operation, **{self.parameter: named}, **deprecated)[self.answer]
        except Refused as refusal:
            if refusal.code.startswith(self.gone):
                return None
            raise
        if isinstance(found, list):
            return found[0] if found else None
        whole: Answer = found
        return whole


VPC = Thing("ec2", "describe_vpcs", "VpcIds", "Vpcs", ("InvalidVpcID",))
SUBNET = Thing("ec2", "describe_subnets", "SubnetIds", "Subnets", ("InvalidSubnetID",))
SNAPSHOT = Thing("ec2", "describe_snapshots", "SnapshotIds", "Snapshots", ("InvalidSnapshot",))
IMAGE = Thing("ec2", "describe_images", "ImageIds", "Images", ("InvalidAMIID",))
GROUP = Thing("ec2", "describe_placement_groups", "GroupNames", "PlacementGroups", ("InvalidPlacementGroup.Unknown",))
RESERVATION = Thing(
    "ec2",
    "describe_capacity_reservations",
    "CapacityReservationIds",
    "CapacityReservations",
    ("InvalidCapacityReservationId",),
)
CONNECT_ENDPOINT = Thing(
    "ec2",
    "describe_instance_connect_endpoints",
    "InstanceConnectEndpointIds",
    "InstanceConnectEndpoints",
    ("InvalidInstanceConnectEndpointId",),
)
SECURITY_GROUP = Thing("ec2", "describe_security_groups", "GroupIds", "SecurityGroups", ("InvalidGroup",))
KEY = Thing("kms", "describe_key", "KeyId", "KeyMetadata", ("NotFoundException",))
POLICY = Thing("iam", "get_policy", "PolicyArn", "Policy", ("NoSuchEntity",))
PARAMETER = Thing("ssm", "get_parameter", "Name", "Parameter", ("ParameterNotFound",))
VOLUME = Thing("ec2", "describe_volumes", "VolumeIds", "Volumes", ("InvalidVolume",))
INSTANCE = Thing("ec2", "describe_instances", "InstanceIds", "Reservations", ("InvalidInstanceID",))
INTERFACE = Thing(
    "ec2",
    "describe_network_interfaces",
    "NetworkInterfaceIds",
    "NetworkInterfaces",
    ("InvalidNetworkInterfaceID",),
)
FSX = Thing("fsx", "describe_file_systems", "FileSystemIds", "FileSystems", ("FileSystemNotFound",))
EFS = Thing("efs", "describe_file_systems", "FileSystemId", "FileSystems", ("FileSystemNotFound",))
FSX_VOLUME = Thing("fsx", "describe_volumes", "VolumeIds", "Volumes", ("VolumeNotFound",))
ACCESS_POINT = Thing("efs", "describe_access_points", "AccessPointId", "AccessPoints", ("AccessPointNotFound",))
