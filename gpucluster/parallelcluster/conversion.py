"""What all parts of a conversion share: the file, what was looked up, and what the user should look at."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpucluster.parallelcluster.keys import NO_AMI
from gpucluster.parallelcluster.lines import Item
from gpucluster.parallelcluster.reading import Marks, Node, dotted

_SECTION = re.compile(r"^(HeadNode|Scheduling\.SlurmQueues|Scheduling\.SlurmSettings|SharedStorage)\.")


class Subnet(NamedTuple):
    vpc_id: str
    zone: str


@dataclass
class Conversion:
    file: Node
    region: str
    subnets: Mapping[str, Subnet]
    """Those that AWS knows, by id. Empty without credentials."""
    look: list[str] = field(default_factory=list)
    """What the user should check."""
    needs_vpc: list[str] = field(default_factory=list)
    """Keys whose values exist in one VPC only."""
    needs_zone: list[str] = field(default_factory=list)
    """Reservations, which are in one zone."""
    subnet: str = ""
    """The one for all nodes, as the file has it."""
    keys: list[str] = field(default_factory=list)
    """KMS keys."""
    renamed: dict[str, list[str]] = field(default_factory=dict)
    """Queue -> its partitions, if they are named otherwise."""

    @property
    def marks(self) -> Marks:
        return self.file.marks

    def check(self, sentence: str) -> None:
        if sentence not in self.look:
            self.look.append(sentence)


def item(key: str, value: Any, node: Node, *sources: str, words: str = "", **more: Any) -> Item:
    """`sources`: keys below the node that became it, which its comment names. `words`: what else the comment says."""
    paths = tuple((*node.path, *source.split(".")) for source in sources)
    said = ", ".join(_SECTION.sub("", dotted(path)) for path in paths)
    return Item(key, value, f"{said}: {words}" if words else said, sources=paths, **more)


def scripts(node: Node, timeouts: Node, timeout: str) -> Item | None:
    """CustomActions of the head node or of a queue. `timeout`: the key of DevSettings.Timeouts for its nodes."""
    actions = node.section("CustomActions")
    timeout_s = timeouts.number(timeout) if actions else None
    found = []
    for key, when in (("OnNodeStart", "before"), ("OnNodeConfigured", "after")):
        own = actions.section(key)
        for each in own.sections("Sequence") or ([own] if own else []):
            source = each.text("Script")
            if not source:
                continue
            script: dict[str, Any] = {"when": when} if when == "before" else {}
            script["source"] = source
            if arguments := each.texts("Args"):
                script["args"] = arguments
            if timeout_s:
                script["time_limit_minutes"] = max(1, math.ceil(timeout_s / 60))
            found.append(script)
    if not found:
        return None
    made = item("scripts", found, node, "CustomActions", words=f"time limit: {timeout}" if timeout_s else "")
    made.sources += ((*timeouts.path, timeout),) if timeout_s else ()
    return made


def root_volume(node: Node, gib_at_least: int) -> Item | None:
    """RootVolume of the head node or of a queue, as gp3. `node`: the section that holds LocalStorage."""
    disk = node.section("LocalStorage", "RootVolume")
    given: dict[str, int] = {}
    sources = []
    for ours, theirs, least in (
        ("gib", "Size", gib_at_least),
        ("iops", "Iops", 3000),
        ("throughput_mibps", "Throughput", 125),
    ):
        value = disk.number(theirs)
        if value is not None and value < least:
            disk.leave(theirs, f"root_volume.{ours} is at least {least}, its default", "unneeded")
        elif value is not None:
            given[ours] = value
            sources.append(f"LocalStorage.RootVolume.{theirs}")
    return item("root_volume", given, node, *sources) if given else None


def security_groups(node: Node, conversion: Conversion) -> Item | None:
    network = node.section("Networking")
    groups = [*network.texts("SecurityGroups"), *network.texts("AdditionalSecurityGroups")]
    if not groups:
        return None
    conversion.needs_vpc.append("security_groups")
    names = [key for key in ("SecurityGroups", "AdditionalSecurityGroups") if key in network.data]
    return item("security_groups", list(dict.fromkeys(groups)), network, *names)


def threads(node: Node) -> Item | None:
    asked = str(node.section("CustomSlurmSettings").data.get("ThreadsPerCore", ""))
    if asked in ("1", "2"):
        return item("threads_per_core", int(asked), node, "CustomSlurmSettings.ThreadsPerCore")
    if not node.flag("DisableSimultaneousMultithreading"):
        node.leave("DisableSimultaneousMultithreading", "false is the default here, too", "unneeded")
        return None
    return item("threads_per_core", 1, node, "DisableSimultaneousMultithreading")


def image(node: Node) -> Item | None:
    """A custom AMI, as a comment."""
    ami = node.section("Image").text("CustomAmi")
    if not ami:
        return None
    return item("image", ami, node, "Image.CustomAmi", off=NO_AMI)
