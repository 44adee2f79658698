"""Checks whether the zone offers the cluster's instance types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpucluster.config.checks.online.account import Account, zone
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.validators import Findings, Validators

validator = Validators("Zone (asks AWS)", needs="aws")
OFFERINGS = (
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html; "
    "error Unsupported of EC2 RunInstances"
)


@validator("zone-offers-nodes", OFFERINGS)
def zone_offers_nodes(config: ClusterConfig, account: Account) -> Findings:
    """The zone offers the head node's instance type, the parameter servers', and at least one of each partition's."""
    offered = _offered(account, config)
    for path, types in _named(config):
        if not offered & set(types):
            yield _missing(path, types, config, account)


@validator("zone-offers-every-type", OFFERINGS, level="warning")
def zone_offers_every_type(partition: Partition, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The zone offers all of a partition's instance types."""
    offered = _offered(account, config)
    missing = [name for name in partition.instance_types if name not in offered]
    if len(missing) < len(partition.instance_types):
        for name in missing:
            place = (*path, "instance_types", partition.instance_types.index(name))
            yield _missing(place, [name], config, account)


def _missing(path: Path, names: Iterable[str], config: ClusterConfig, account: Account) -> Finding:
    others = sorted(
        {location for name in names for location, types in _offers(account, config).items() if name in types}
    )
    hint = f"these zones do: {', '.join(others)}" if others else f"no zone of {config.region} does"
    return Finding(path, f"{zone(account, config)} does not offer {' or '.join(names)}", hint)


def _offered(account: Account, config: ClusterConfig) -> set[str]:
    return _offers(account, config).get(zone(account, config) or "", set())


def _offers(account: Account, config: ClusterConfig) -> dict[str, set[str]]:
    """The offered types among those that the file names, by zone."""
    names = {name for _, types in _named(config) for name in types}
    answer = account.ask(
        "ec2",
        "describe_instance_type_offerings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": sorted(names)}],
    )
    found: dict[str, set[str]] = {}
    for offering in answer["InstanceTypeOfferings"]:
        found.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    return found


def _named(config: ClusterConfig) -> Iterator[tuple[Path, tuple[str, ...]]]:
    yield ("head_node", "instance_type"), (config.head_node.instance_type,)
    for path, partition in config.partitions_by_path():
        yield (*path, partition.types_key), partition.instance_types
