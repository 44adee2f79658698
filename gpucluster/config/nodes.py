"""The sections of cluster.yaml that describe nodes: the head node, partitions and parameter servers."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WrapValidator

from gpucluster.config.fields import (
    Amount,
    Count,
    Image,
    InstanceTypeName,
    PartitionName,
    PlacementGroup,
    ServersPlacementGroup,
    Whole,
)
from gpucluster.config.identifiers import NodeGroupId, ReservationId, SnapshotId
from gpucluster.config.limits import Limit
from gpucluster.config.scripts import Script
from gpucluster.config.section import Section, Separate, or_blank, pass_refused
from gpucluster.config.slurm import Options

PARAMETER_SERVERS = "ps"
"""The name of the partition of parameter servers, which is reserved."""

NODE_RANGE = "man slurm.conf.5: NodeName: a range of nodes goes up, from 1"
Scripts = tuple[Annotated[Script, Separate(), or_blank(Script)], ...]
DELETION_POLICY = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html"


EBS_TYPES = "https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html: gp3"


class RootVolume(Section):
    heading: ClassVar[str] = "Root disks"

    gib: Annotated[
        Annotated[int, Field(strict=True, ge=8, le=65536)] | None,
        Limit("root-volume-size", "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html: Size"),
    ] = None
    """None: 100, or the size of the AMI's own disk if that is larger."""
    iops: Annotated[
        Annotated[int, Field(strict=True, ge=3000, le=80000)] | None, Limit("root-volume-iops", EBS_TYPES)
    ] = None
    throughput_mibps: Annotated[
        Annotated[int, Field(strict=True, ge=125, le=2000)] | None, Limit("root-volume-throughput", EBS_TYPES)
    ] = None

    def plain(self) -> tuple[int, ...]:
        """Its values that are not the defaults."""
        return tuple(each for each in (self.gib, self.iops, self.throughput_mibps) if each is not None)


AS_USUAL = RootVolume.model_construct()

Threads = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=2)] | None,
    Limit("threads-per-core", "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CpuOptionsRequest.html"),
]


class HeadNode(Section):
    heading: ClassVar[str] = "Head node"

    instance_type: InstanceTypeName = "m6i.2xlarge"
    volume_gib: Annotated[
        int,
        Field(strict=True, ge=10, le=65536),
        Limit("head-volume-size", "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html: Size"),
    ] = 200
    threads_per_core: Threads = None
    root_volume: RootVolume = AS_USUAL
    image: Image | None = None
    on_delete: Annotated[Literal["delete", "snapshot", "retain"], Limit("head-on-delete", DELETION_POLICY)] = "snapshot"
    snapshot_days: Annotated[Whole, Limit("head-snapshot-count")] = 7
    snapshot_id: SnapshotId | None = None
    termination_protection: bool = False
    scripts: Scripts = ()
    security_groups: tuple[NodeGroupId, ...] = ()


class Partition(Section):
    heading: ClassVar[str] = "Partitions"
    types_key: ClassVar[str] = "instance_types"
    """Its key in the file that names its instance types."""
    own_group: ClassVar[str] = "cluster"
    """The value of placement_group that asks for a group of the stack."""

    name: PartitionName
    instance_types: Annotated[
        tuple[Annotated[InstanceTypeName, WrapValidator(pass_refused)], ...],
        Field(min_length=1),
        Limit("partition-has-types", "error MissingParameter of EC2 RunInstances: InstanceType"),
    ]
    threads_per_core: Threads = None
    root_volume: RootVolume = AS_USUAL
    image: Image | None = None
    min_nodes: Annotated[Whole, Limit("partition-node-count", NODE_RANGE)] = 0
    max_nodes: Annotated[Count, Limit("partition-node-count", NODE_RANGE)]
    purchase: Annotated[
        Literal["on-demand", "spot", "reservation", "capacity-block"],
        Limit("purchase-option", "AWS::EC2::LaunchTemplate InstanceMarketOptions.MarketType", "Purchase"),
    ] = "on-demand"
    reservation_id: ReservationId | None = None
    placement_group: PlacementGroup = "cluster"
    efa: Annotated[
        Literal["auto", "required", "off"],
        Limit("efa-mode", "AWS::EC2::LaunchTemplate NetworkInterface.InterfaceType", "EFA"),
    ] = "auto"
    scratch: Annotated[
        Literal["auto", "off"],
        Limit("scratch-mode", "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/InstanceStorage.html"),
    ] = "auto"
    idle_minutes: Annotated[
        Amount, Limit("idle-minutes-above-zero", "man slurm.conf.5: SuspendTime: -1 disables power saving")
    ] = 10.0
    partition_options: Options = {}
    node_options: Options = {}
    max_usd_per_hour: Annotated[
        Amount | None, Limit("partition-ceiling-above-zero", "https://aws.amazon.com/ec2/pricing/on-demand/", "Budget")
    ] = None
    scripts: Scripts = ()
    security_groups: tuple[NodeGroupId, ...] = ()


class _ServersPartition(Partition):
    types_key = "instance_type"
    own_group = "shared"


class ParameterServers(Section):
    heading: ClassVar[str] = "Parameter servers"
    own_group: ClassVar[str] = _ServersPartition.own_group

    instance_type: InstanceTypeName = "m4.16xlarge"
    threads_per_core: Threads = None
    root_volume: RootVolume = AS_USUAL
    min_nodes: Annotated[Whole, Limit("servers-node-count", NODE_RANGE)] = 0
    max_nodes: Annotated[Count, Limit("servers-node-count", NODE_RANGE)] = 16
    placement_group: ServersPlacementGroup = "shared"
    scripts: Scripts = ()
    security_groups: tuple[NodeGroupId, ...] = ()

    def partition(self) -> Partition:
        """The section as a Partition. Launchers of parameter servers use no EFA. Refused values stay refused."""
        own: dict[str, Any] = dict(self.__dict__)
        if "instance_type" in own:
            own["instance_types"] = (own.pop("instance_type"),)
        made = _ServersPartition.model_construct(name=PARAMETER_SERVERS, efa="off", **own)
        for key in type(self).model_fields.keys() - self.__dict__.keys():
            made.__dict__.pop(key, None)
        return made
