"""The node programs' data of the cluster: fleet.json from the bundle, and SSM parameters from the deployment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUNDLE = Path(__file__).resolve().parents[1]
NEWEST = BUNDLE.with_name("bundle")
"""The link to the newest bundle, which may be another one than that of a program that has run for a while."""


@dataclass(frozen=True)
class Partition:
    name: str
    min_nodes: int
    max_nodes: int
    purchase: str
    max_usd_per_hour: float | None = None
    reservation_id: str | None = None
    """The reservation of a Capacity Block."""
    topology: bool = False
    """Whether EC2 tells where in the network instances of its types are."""

    @property
    def paid_in_advance(self) -> bool:
        """AWS bills a Capacity Block when it is bought."""
        return self.purchase == "capacity-block"


@dataclass(frozen=True)
class Fleet:
    cluster: str
    zone: str
    ssm_path: str
    partitions: tuple[Partition, ...]
    state: str = "/home/gpucluster"
    """The directory on the data volume, which outlives head nodes."""
    monthly_usd: float | None = None
    """What the nodes may cost in a month; None: launches do not stop."""
    stops_nodes: bool = False
    """Whether running nodes end too when they have cost that."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """The user's own, for what the head node creates."""

    def partition_of(self, node: str) -> Partition | None:
        """None for a name that is not (or no longer) a node of this cluster."""
        name, _, number = node.rpartition("-")
        for partition in self.partitions:
            if partition.name == name and number.isdecimal() and 1 <= int(number) <= partition.max_nodes:
                return partition
        return None

    def always_on(self) -> list[str]:
        return [f"{partition.name}-{n}" for partition in self.partitions for n in range(1, partition.min_nodes + 1)]

    def is_node_record(self, name: str) -> bool:
        """Whether the DNS name has the form of a node's name, with any number."""
        names = "|".join(re.escape(partition.name) for partition in self.partitions)
        return re.fullmatch(rf"(?:{names})-\d+\.{re.escape(self.zone)}\.?", name) is not None


@dataclass(frozen=True)
class LaunchTemplate:
    instance_type: str
    launch_template_id: str
    version: str


def load(path: Path = BUNDLE / "fleet.json") -> Fleet:
    return parse(json.loads(path.read_text()))


def newest() -> Fleet:
    """Reads the newest bundle, for a program that has run for a while."""
    return load(NEWEST / "fleet.json")


def parse(data: dict[str, Any]) -> Fleet:
    return Fleet(**{**data, "partitions": tuple(Partition(**each) for each in data["partitions"])})


def launch_templates(ssm: Any, fleet: Fleet, partition: str) -> tuple[LaunchTemplate, ...]:
    """In order of preference."""
    value = parameter(ssm, fleet, f"partitions/{partition}")
    return tuple(
        LaunchTemplate(each["instance_type"], each["launch_template_id"], str(each["version"]))
        for each in value["instance_types"]
    )


def hosted_zone_id(ssm: Any, fleet: Fleet) -> str:
    return str(parameter(ssm, fleet, "network")["hosted_zone_id"])


def parameter(ssm: Any, fleet: Fleet, name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(ssm.get_parameter(Name=fleet.ssm_path + name)["Parameter"]["Value"])
    return value
