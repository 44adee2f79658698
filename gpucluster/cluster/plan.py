"""What `up` would create and its hourly price, computed only from the file and the table of instance types."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from gpucluster.config import ClusterConfig
from gpucluster.hardware import prices
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType
from gpucluster.hardware.prices import Price
from gpucluster.layout import Layout


@dataclass(frozen=True)
class Line:
    """Nodes of one kind, at the price of the most expensive type that they may have; None if unknown."""

    name: str
    instance_types: tuple[str, ...]
    min_nodes: int
    max_nodes: int
    gpus: int
    """How many all nodes have together, at most."""
    purchase: str
    usd_per_node_hour: float | None
    """The on-demand price, which spot capacity never exceeds. 0 in a Capacity Block, which is paid in advance."""
    usd_per_first_hour: float | None
    """The price of a node of the first type, which is launched while EC2 has it."""
    price_region: str = prices.REFERENCE
    """The price's region; not the cluster's where no price is known there."""

    @property
    def usd_per_hour_min(self) -> float | None:
        return None if self.usd_per_first_hour is None else self.usd_per_first_hour * self.min_nodes

    @property
    def usd_per_hour_max(self) -> float | None:
        return None if self.usd_per_node_hour is None else self.usd_per_node_hour * self.max_nodes


def lines(layout: Layout) -> list[Line]:
    region = layout.config.region
    head = INSTANCE_TYPES[layout.config.head_node.instance_type]
    found = [_line(region, "head", (head,), 1, 1)]
    for each in layout.partitions:
        found.append(_line(region, each.name, each.types, each.min_nodes, each.max_nodes, purchase=each.purchase))
    return found


def _line(
    region: str,
    name: str,
    types: tuple[InstanceType, ...],
    min_nodes: int,
    max_nodes: int,
    purchase: str = "on-demand",
) -> Line:
    known = [price for each in types if (price := prices.of(each.name, region))]
    highest = max(known) if len(known) == len(types) else None
    paid = purchase != "capacity-block"
    return Line(
        name=name,
        instance_types=tuple(instance_type.name for instance_type in types),
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        gpus=types[0].gpus * max_nodes,
        purchase=purchase,
        usd_per_node_hour=0.0 if not paid else highest.usd if highest else None,
        usd_per_first_hour=0.0 if not paid else known[0].usd if highest else None,
        price_region=highest.region if highest and paid else region,
    )


@dataclass(frozen=True)
class Item:
    """Another resource of the stack. `usd_per_hour`: None if it depends on usage or is unknown."""

    name: str
    usd_per_hour: float | None
    lasting: bool = True
    """Whether it costs money as long as the cluster exists, or only while jobs use it."""
    price_region: str | None = None
    """None for an item that is free or has no price."""

    @classmethod
    def priced(cls, name: str, price: Price | None, lasting: bool = True) -> Item:
        return cls(name, price.usd, lasting, price.region) if price else cls(name, None, lasting)


BASIC_ENDPOINTS = 6
"""The endpoints of every network without a route to the internet: stacks/endpoints.py."""


def beside_nodes(config: ClusterConfig) -> list[Item]:
    network = config.network
    gib, region = config.head_node.volume_gib, config.region
    gp3 = prices.of(prices.GP3, region)
    found = [Item.priced(f"{gib} GiB for {_on_volume(config)}", gp3 and gp3.hourly(gib))]
    if network.vpc_id:
        found.append(Item(f"subnet {network.subnet_id} of {network.vpc_id}", 0.0))
    else:
        found.append(Item(f"VPC {network.vpc_cidr}", 0.0))
    if network.internet == "nat" and not network.vpc_id:
        found.append(Item.priced("NAT gateway", prices.of(prices.NAT_GATEWAY, region)))
        found.append(Item.priced("public address of the NAT gateway", prices.of(prices.PUBLIC_IPV4, region)))
    if network.internet == "none":
        count = BASIC_ENDPOINTS + config.jobs_have_role + config.asks_fsx
        count += config.monitoring.alarm_email is not None
        endpoint = prices.of(prices.INTERFACE_ENDPOINT, region)
        found.append(Item.priced(f"{count} endpoints of AWS's services", endpoint and endpoint.times(count)))
    if network.ssh_from:
        found.append(Item("load balancer for SSH", None))
    if config.accounting == "rds":
        found.append(Item("MariaDB on RDS for Slurm's accounting", None))
    if config.budget:
        found.append(Item(f"a budget of ${config.budget.monthly_usd:,.0f} a month", 0.0))
    limited = [each for each in config.partitions if each.max_usd_per_hour]
    found += [Item(f"{each.name}: launches wait at ${each.max_usd_per_hour:,.2f} an hour", 0.0) for each in limited]
    storage = [Item.priced(each.summary(), each.price(region), each.paid_always) for each in config.storage]
    return found + [item for item in storage if item.name]


def _on_volume(config: ClusterConfig) -> str:
    return "/home" if config.volume_mount == "/home" else "Slurm"


NOT_PRICED = "data transfer, requests to S3, snapshots, logs, the nodes' root disks"


@dataclass(frozen=True)
class Bill:
    """USD per hour. None if the price of a node is unknown."""

    lines: list[Line]
    items: list[Item]
    region: str

    @property
    def usd_per_hour_min(self) -> float | None:
        """From the deployment of the cluster until its deletion."""
        nodes = total([line.usd_per_hour_min for line in self.lines])
        return None if nodes is None else nodes + sum(item.usd_per_hour or 0.0 for item in self.items if item.lasting)

    @property
    def usd_per_hour_max(self) -> float | None:
        nodes = total([line.usd_per_hour_max for line in self.lines])
        return None if nodes is None else nodes + sum(item.usd_per_hour or 0.0 for item in self.items)

    @property
    def where_and_when(self) -> str:
        """The region and the date of its prices."""
        names = [name for line in self.lines for name in line.instance_types]
        return where_and_when(self.region, names, self.items)

    @property
    def not_included(self) -> str:
        return ", ".join([*(item.name for item in self.items if item.usd_per_hour is None), NOT_PRICED])


def bill(layout: Layout) -> Bill:
    return Bill(lines(layout), beside_nodes(layout.config), layout.config.region)


def where_and_when(region: str, instance_types: Iterable[str], items: Iterable[Item] = ()) -> str:
    """The region and the date of their prices: `on demand in us-east-1, 2026-07-20`."""
    used = {name: price for name in instance_types if (price := prices.of(name, region))}
    return prices.where_and_when(region, used, [item.name for item in items if item.price_region not in (None, region)])


def total(prices: list[float | None]) -> float | None:
    """None if one price is unknown: a sum without it would look complete."""
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def zones_with(ec2: Any, instance_types: Collection[str]) -> list[str]:
    """Zones of the client's region that offer all of these types, by name. Takes a boto3 client."""
    by_type = zones_of(ec2, instance_types)
    zones = {zone for found in by_type.values() for zone in found}
    return sorted(zone for zone in zones if all(zone in by_type.get(name, ()) for name in instance_types))


def zones_of(ec2: Any, instance_types: Collection[str]) -> dict[str, list[str]]:
    """Type -> names of the zones of the client's region that offer it. Takes a boto3 client."""
    found: dict[str, list[str]] = {}
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": sorted(instance_types)}]
    )
    for page in pages:
        for offering in page["InstanceTypeOfferings"]:
            found.setdefault(offering["InstanceType"], []).append(offering["Location"])
    return {name: sorted(zones) for name, zones in found.items()}
