"""What `up` would create and what that costs by the hour, from the file and the table of instance types alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gpucluster.config import ClusterConfig
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType
from gpucluster.layout import Layout


@dataclass(frozen=True)
class Line:
    """Nodes of one kind. Prices are those of the dearest type that a node may get; None where no price is known."""

    name: str
    instance_types: tuple[str, ...]
    min_nodes: int
    max_nodes: int
    gpus: int
    """Of all nodes together, at most."""
    purchase: str
    usd_per_node_hour: float | None
    """On demand, which spot capacity does not exceed; 0 in a Capacity Block, which is paid when it is bought."""

    @property
    def usd_per_hour_min(self) -> float | None:
        return None if self.usd_per_node_hour is None else self.usd_per_node_hour * self.min_nodes

    @property
    def usd_per_hour_max(self) -> float | None:
        return None if self.usd_per_node_hour is None else self.usd_per_node_hour * self.max_nodes


def lines(layout: Layout) -> list[Line]:
    head = INSTANCE_TYPES[layout.config.head_node.instance_type]
    found = [_line("head", (head,), 1, 1)]
    for each in layout.partitions:
        found.append(_line(each.name, each.types, each.min_nodes, each.max_nodes, purchase=each.purchase))
    return found


def _line(
    name: str, types: tuple[InstanceType, ...], min_nodes: int, max_nodes: int, purchase: str = "on-demand"
) -> Line:
    prices = [instance_type.price_usd_per_hour for instance_type in types]
    known = [price for price in prices if price is not None]
    return Line(
        name=name,
        instance_types=tuple(instance_type.name for instance_type in types),
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        gpus=types[0].gpus * max_nodes,
        purchase=purchase,
        usd_per_node_hour=0.0 if purchase == "capacity-block" else max(known) if len(known) == len(prices) else None,
    )


def beside_nodes(config: ClusterConfig) -> list[str]:
    """What else is made, in a few words each."""
    network = config.network
    found = [
        f"{config.head_node.volume_gib} GiB for {'/home' if config.volume_mount == '/home' else 'Slurm'}",
        f"subnet {network.subnet_id} of {network.vpc_id}" if network.vpc_id else f"VPC {network.vpc_cidr}",
        "NAT gateway" if network.internet == "nat" and not network.vpc_id else "",
        "endpoints of AWS's services" if network.internet == "none" else "",
        "load balancer for SSH" if network.ssh_from else "",
        "MariaDB on RDS for Slurm's accounts" if config.accounting == "rds" else "",
        f"a budget of ${config.budget.monthly_usd:,.0f} a month" if config.budget else "",
    ]
    return [each for each in [*found, *(storage.summary() for storage in config.storage)] if each]


def total(prices: list[float | None]) -> float | None:
    """None as soon as one is not known: a sum without it would look like the whole."""
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def zones_with(ec2: Any, instance_types: Collection[str]) -> list[str]:
    """Zones of the client's region that offer all of these types, by name. Takes a boto3 client."""
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": sorted(instance_types)}]
    )
    offered: dict[str, set[str]] = {}
    for page in pages:
        for offering in page["InstanceTypeOfferings"]:
            offered.setdefault(offering["Location"], set()).add(offering["InstanceType"])
    return sorted(zone for zone, types in offered.items() if types >= set(instance_types))
