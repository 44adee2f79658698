"""Checks whether capacity reservations, Capacity Blocks and placement groups fit the partition."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.checks.online.account import Account, Answer, zone
from gpucluster.config.checks.online.things import GROUP, RESERVATION
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.validators import Findings, Validators

validator = Validators("Reservations (asks AWS)", needs="aws")
DESCRIBE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html"
FAILS = "error ReservationCapacityExceeded of EC2 RunInstances"
GROUPS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html"
IN_GROUPS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html"


@validator("reservation-active", f"{DESCRIBE}: State; {FAILS}")
def reservation_active(partition: Partition, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A partition's reservation has not ended."""
    found = RESERVATION.look_up(account, partition.reservation_id)
    if found and found["State"] in ("expired", "cancelled", "failed", "payment-failed", "unsupported"):
        yield Finding((*path, "reservation_id"), f"{partition.reservation_id} is {found['State']}", "use another one")


@validator(
    "reservation-kind",
    f"{DESCRIBE}: ReservationType; AWS::EC2::LaunchTemplate InstanceMarketOptions.MarketType: capacity-block",
)
def reservation_kind(partition: Partition, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """purchase: capacity-block names a Capacity Block, and purchase: reservation none."""
    found = RESERVATION.look_up(account, partition.reservation_id)
    is_block = found is not None and found.get("ReservationType") == "capacity-block"
    if found and is_block != (partition.purchase == "capacity-block"):
        yield Finding(
            (*path, "purchase"),
            f"{partition.reservation_id} is {'a' if is_block else 'no'} Capacity Block, got {partition.purchase!r}",
            f"write purchase: {'capacity-block' if is_block else 'reservation'}",
        )


@validator("reservation-matches", f"{DESCRIBE}; error CapacityReservationInvalidParameters: attributes must match")
def reservation_matches(partition: Partition, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A partition's reservation is for its instance type, the cluster's zone and Linux, on shared hardware."""
    id_, here = partition.reservation_id, zone(account, config)
    found = RESERVATION.look_up(account, id_)
    if found is None:
        return
    type_, there = found["InstanceType"], found["AvailabilityZone"]
    if type_ not in partition.instance_types:
        message = f"{id_} is for {type_}, got {', '.join(partition.instance_types)}"
        yield Finding((*path, "instance_types"), message, f"write instance_types: [{type_}]")
    if there != here:
        message = f"{id_} is in {there}, the cluster in {here}"
        yield Finding((*path, "reservation_id"), message, f"write availability_zone: {there}")
    platform, tenancy = found.get("InstancePlatform", "Linux/UNIX"), found.get("Tenancy", "default")
    if (platform, tenancy) != ("Linux/UNIX", "default"):
        message = f"{id_} is for {platform} with {tenancy} tenancy, nodes are Linux/UNIX with default"
        yield Finding((*path, "reservation_id"), message)


@validator("reservation-count", f"{DESCRIBE}: TotalInstanceCount; {FAILS}", level="warning")
def reservation_count(partition: Partition, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A partition's reservation holds as many instances as it may have nodes."""
    found = RESERVATION.look_up(account, partition.reservation_id)
    if found and found["TotalInstanceCount"] < partition.max_nodes:
        yield Finding(
            (*path, "max_nodes"),
            f"{partition.reservation_id} holds {found['TotalInstanceCount']} instances, got {partition.max_nodes}",
            f"write max_nodes: {found['TotalInstanceCount']}",
        )


@validator(
    "reservation-placement-group", f"{IN_GROUPS}: a reservation cannot be moved into a group, nor out of it; {FAILS}"
)
def reservation_placement_group(partition: Partition, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A partition's reservation was made in the placement group that the partition names."""
    found, named = RESERVATION.look_up(account, partition.reservation_id), partition.placement_group
    if found is None or partition.purchase != "reservation" or named in ("cluster", "none"):
        return
    group = _group_of(found)
    if group != named:
        where = f"the placement group {group!r}" if group else "no placement group"
        yield Finding(
            (*path, "placement_group"),
            f"{partition.reservation_id} was made in {where}, got {named!r}",
            f"write placement_group: {group or 'none'}",
        )


@validator(
    "reservation-group-is-named",
    f"{IN_GROUPS}: launch the instances into the placement group; {FAILS}",
    level="warning",
)
def reservation_group_is_named(partition: Partition, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The file names the placement group that a partition's reservation was made in."""
    found = RESERVATION.look_up(account, partition.reservation_id)
    group = _group_of(found) if found else None
    if group and partition.purchase == "reservation" and partition.placement_group == "none":
        yield Finding(
            (*path, "placement_group"),
            f"{partition.reservation_id} was made in the placement group {group!r}, but nodes are launched into none",
            f"write placement_group: {group}",
        )


@validator("placement-group-strategy", f"{GROUPS}: strategies")
def placement_group_strategy(config: ClusterConfig, account: Account) -> Findings:
    """A named placement group has the strategy cluster, which puts instances close together."""
    for path, name in groups_of(config):
        found = GROUP.look_up(account, name)
        if found and found["Strategy"] != "cluster":
            yield Finding(
                path,
                f"{name!r} is a {found['Strategy']} group, which spreads nodes",
                "use a group with the strategy cluster",
            )


@validator("placement-group-available", "error InvalidPlacementGroup.InUse and InvalidPlacementGroup.Unknown of EC2")
def placement_group_available(config: ClusterConfig, account: Account) -> Findings:
    """A named placement group is not being deleted."""
    for path, name in groups_of(config):
        found = GROUP.look_up(account, name)
        if found and found["State"] in ("deleting", "deleted"):
            yield Finding(path, f"{name!r} is {found['State']}", "write cluster: the stack creates one")


def _group_of(reservation: Answer) -> str | None:
    """The name of the placement group that the reservation was made in."""
    return str(reservation.get("PlacementGroupArn", "")).partition(":placement-group/")[2] or None


def groups_of(config: ClusterConfig) -> Iterator[tuple[Path, str]]:
    for path, partition in config.partitions_by_path():
        if partition.placement_group not in (partition.own_group, "none"):
            yield (*path, "placement_group"), partition.placement_group
