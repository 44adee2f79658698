"""Rules about how nodes are bought: spot, capacity reservations, capacity blocks."""

from __future__ import annotations

from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Partition
from gpucluster.config.validators import Findings, validator

SECTION = "Purchase"
RESERVED = ("reservation", "capacity-block")


@validator(
    "reservation-has-id",
    section=SECTION,
    each=Partition,
    source="AWS::EC2::LaunchTemplate CapacityReservationSpecification.CapacityReservationTarget",
)
def reservation_has_id(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """purchase: reservation and capacity-block say which one: reservation_id."""
    if partition.purchase in RESERVED and partition.reservation_id is None:
        hint = "reservation_id: cr-… names what was reserved or bought"
        yield Finding((*path, "purchase"), f"{partition.purchase!r} needs reservation_id", hint)


@validator(
    "reservation-id-is-used",
    section=SECTION,
    each=Partition,
    source="AWS::EC2::LaunchTemplate CapacityReservationSpecification.CapacityReservationTarget",
)
def reservation_id_is_used(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """reservation_id stands beside purchase: reservation or capacity-block only."""
    if partition.purchase not in RESERVED and partition.reservation_id is not None:
        hint = "write purchase: reservation or purchase: capacity-block"
        yield Finding((*path, "reservation_id"), f"does nothing with purchase: {partition.purchase}", hint)


@validator(
    "reservation-without-placement-group",
    section=SECTION,
    each=Partition,
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
)
def reservation_without_placement_group(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """Reserved nodes are in no placement group: the reservation decides where they are."""
    if partition.purchase in RESERVED and partition.placement_group != "none":
        yield Finding(
            (*path, "placement_group"),
            f"must be none with purchase: {partition.purchase}, got {partition.placement_group!r}",
            "write placement_group: none: the reservation decides where its instances are",
        )


@validator(
    "reservation-of-one-type",
    section=SECTION,
    each=Partition,
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html: InstanceType",
)
def reservation_of_one_type(partition: Partition, path: Path, config: ClusterConfig) -> Findings:
    """A partition on a reservation has one instance type: the reservation's."""
    if partition.purchase in RESERVED and len(partition.instance_types) > 1:
        yield Finding((*path, "instance_types"), f"must be the one type that the {partition.purchase} is for")
