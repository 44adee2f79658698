"""Rules about how nodes are bought: spot, capacity reservations, capacity blocks."""

from __future__ import annotations

from gpucluster.config.checks.partitions import known_types
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.validators import Findings, Validators

validator = Validators("Purchase")
RESERVED = ("reservation", "capacity-block")

CAPACITY_BLOCKS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html"
BLOCK_FAMILIES = ("p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300")
BLOCK_INSTANCES = 64


@validator("reservation-has-id", "AWS::EC2::LaunchTemplate CapacityReservationSpecification.CapacityReservationTarget")
def reservation_has_id(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """purchase: reservation and capacity-block need a reservation_id."""
    if partition.purchase in RESERVED and partition.reservation_id is None:
        hint = "set reservation_id: cr-… to the reservation or block that you have"
        yield Finding((*path, "purchase"), f"{partition.purchase!r} needs reservation_id", hint)


@validator(
    "reservation-id-is-used", "AWS::EC2::LaunchTemplate CapacityReservationSpecification.CapacityReservationTarget"
)
def reservation_id_is_used(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """reservation_id is used only with purchase: reservation or capacity-block."""
    if partition.purchase not in RESERVED and partition.reservation_id is not None:
        hint = "write purchase: reservation or purchase: capacity-block"
        yield Finding((*path, "reservation_id"), f"does nothing with purchase: {partition.purchase}", hint)


@validator(
    "reservation-without-placement-group",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html: "
    "a reservation is in the placement group that it was made in, or in none",
)
def reservation_without_placement_group(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """Reserved nodes are in the placement group that the reservation was made in, those of a Capacity Block in none."""
    group = partition.placement_group
    grouped = partition.purchase == "reservation"
    if partition.purchase not in RESERVED or group == "none" or (grouped and group != "cluster"):
        return
    default = "" if "placement_group" in partition.model_fields_set else ", the default"
    allowed = "none or the name of a group" if grouped else "none"
    yield Finding(
        (*path, "placement_group"),
        f"must be {allowed} with purchase: {partition.purchase}, got {group!r}{default}",
        "write placement_group: none, or the name of the group that the reservation was made in"
        if grouped
        else "write placement_group: none: the reservation decides where its instances are",
    )


@validator(
    "spot-sold",
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceTypeInfo.html: SupportedUsageClasses",
)
def spot_sold(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """With purchase: spot, EC2 sells every instance type as spot; it does not sell the hpc types so."""
    for index, type_ in known_types(partition) if partition.purchase == "spot" else ():
        if not type_.spot:
            yield Finding(
                (*path, "instance_types", index), f"EC2 does not sell {type_.name} as spot", "write purchase: on-demand"
            )


@validator(
    "reservation-of-one-type",
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html: InstanceType",
)
def reservation_of_one_type(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A partition on a reservation has one instance type: the reservation's."""
    if partition.purchase in RESERVED and len(partition.instance_types) > 1:
        yield Finding((*path, "instance_types"), f"must list only the type that the {partition.purchase} is for")


@validator("capacity-block-types", f"{CAPACITY_BLOCKS}: supported instance types")
def capacity_block_types(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A capacity block's type is of a family that AWS sells as blocks: P4d, P4de, P5, P5e, P5en, P6-B200 or P6-B300."""
    if partition.purchase != "capacity-block":
        return
    for index, type_ in known_types(partition):
        if type_.name.partition(".")[0] not in BLOCK_FAMILIES:
            yield Finding(
                (*path, "instance_types", index),
                f"AWS sells no capacity blocks of {type_.name}",
                f"capacity blocks exist for {', '.join(BLOCK_FAMILIES)}",
            )


@validator("capacity-block-size", f"{CAPACITY_BLOCKS}: up to 64 instances in each")
def capacity_block_size(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A partition on a capacity block has at most 64 nodes: no block is larger."""
    if partition.purchase == "capacity-block" and partition.max_nodes > BLOCK_INSTANCES:
        yield Finding(
            (*path, "max_nodes"), f"must be at most {BLOCK_INSTANCES} in a capacity block, got {partition.max_nodes}"
        )
