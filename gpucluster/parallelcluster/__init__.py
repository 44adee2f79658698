"""`gpucluster init --from`: the cluster.yaml that does what a file of AWS ParallelCluster 3 does.

`keys` says what becomes of each key, and docs/existing-slurm.md shows it. `nodes`, `storage` and `settings` read the
file into items, which `lines` writes. `refused` takes out what GpuCluster's own checks refuse. `account` finds every
key that has no value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpucluster.parallelcluster import account, nodes, settings
from gpucluster.parallelcluster.conversion import Conversion, Subnet, item
from gpucluster.parallelcluster.keys import NO_AMI, SAID, How
from gpucluster.parallelcluster.lines import Item, Page
from gpucluster.parallelcluster.reading import Marks, Node
from gpucluster.parallelcluster.refused import without_refused
from gpucluster.parallelcluster.source import read, region_of, subnets_of
from gpucluster.parallelcluster.storage import mounts, storage

__all__ = ["Converted", "Subnet", "convert", "read", "region_of", "subnets_of"]

UBUNTU = "ubuntu2404"
PLAIN_NAMES = ("cluster", "cluster-config", "config", "configuration", "pcluster", "parallelcluster")
"""Files that are not named after their cluster."""


class Converted(NamedTuple):
    text: str
    counts: dict[How, int]
    look: tuple[str, ...]
    """What to check by hand."""
    complete: bool
    """Whether it can be deployed as it is."""

    def summary(self) -> str:
        return ", ".join(f"{count} {SAID[how]}" for how, count in self.counts.items())


def convert(data: Mapping[str, Any], file: str, region: str, subnets: Mapping[str, Subnet]) -> Converted:
    """`data`: of `read`. `subnets`: those that AWS knows; empty without credentials. Raises UsageError."""
    conversion = Conversion(Node(data, Marks()), region, subnets)
    items, to_fill = _items(conversion, file)
    zone = next((each for each in items if each.key == "availability_zone"), None)
    _say_names(conversion)
    refusals = without_refused(items, conversion)
    if to_fill:
        _leave_open(items, zone, conversion)
    found = account.fates(data, conversion.marks, items)
    notes = account.notes(found, [each.key for each in items])
    page = Page()
    for line in _header(file, notes):
        page.note(line) if line else page.add("#")
    for each in items:
        if each.key not in ("name", "region", "availability_zone"):
            page.add("")
        for comment in notes.get(each.key, []):
            page.note(comment)
        page.item(each)
    return Converted(page.text(), account.counted(found), tuple(conversion.look), not to_fill and not refusals)


def _items(conversion: Conversion, file: str) -> tuple[list[Item], bool]:
    """The sections, and whether the user has to fill in the VPC."""
    stored = storage(conversion)
    mounted = mounts(stored)
    head = nodes.head_node(conversion, "/home" in mounted)
    made = nodes.partitions(conversion, "/scratch" in mounted)
    network, to_fill = settings.network(conversion)
    operating_system(conversion)
    in_subnet = network is not None and any(each.key == "subnet_id" and not each.off for each in network.below)
    items = [
        Item("name", name_of(file), "the stack's name: of ParallelCluster, --cluster-name has it", needed=True),
        _region(conversion),
        _zone(conversion, network) if in_subnet else None,
        network,
        head,
        made,
        stored,
        settings.s3_access(conversion),
        settings.slurm(conversion),
        _software(conversion),
        settings.monitoring(conversion),
        settings.security(conversion),
        settings.tags(conversion),
    ]
    return [each for each in items if each], to_fill


def _region(conversion: Conversion) -> Item:
    if conversion.file.text("Region") == conversion.region:
        return item("region", conversion.region, conversion.file, "Region", needed=True)
    conversion.file.leave("Region", "it is no region: the environment's is used")
    conversion.check(f"region is {conversion.region}, the environment's")
    return Item("region", conversion.region, "the environment's", needed=True)


def _say_names(conversion: Conversion) -> None:
    pairs = [f"`-p {queue}` is `-p {','.join(names)}`" for queue, names in conversion.renamed.items()]
    if pairs:
        more = f" and {len(pairs) - 5} more" if len(pairs) > 5 else ""
        conversion.check(f"partitions have other names than queues, in scripts, too: {', '.join(pairs[:5])}{more}")


def name_of(file: str) -> str:
    """The file's own name, if it names a cluster."""
    stem = Path(file).stem
    named = re.fullmatch(r"[A-Za-z]([A-Za-z0-9-]{0,38}[A-Za-z0-9])?", stem) and stem.lower() not in PLAIN_NAMES
    return stem if named else "GpuCluster"


def _zone(conversion: Conversion, network: Item | None) -> Item:
    subnet = next(str(each.value) for each in network.below if each.key == "subnet_id") if network else ""
    found = conversion.subnets.get(subnet)
    return Item("availability_zone", found.zone if found else f"{conversion.region}a", "the subnet's")


def operating_system(conversion: Conversion) -> None:
    image = conversion.file.section("Image")
    system = image.text("Os")
    if system and system != UBUNTU:
        image.leave("Os", "nodes run Ubuntu 24.04: scripts that call yum, or name ec2-user, need a change")
    scripts = any("CustomActions" in each.data for each in _nodes(conversion))
    if system and system != UBUNTU and scripts:
        conversion.check(f"scripts were written for {system}: nodes run Ubuntu 24.04 here")
    if image.data.get("CustomAmi") or any(each.section("Image") for each in _nodes(conversion)):
        conversion.check("custom AMIs are comments: what they hold must be installed by scripts, or baked")


def _nodes(conversion: Conversion) -> list[Node]:
    return [conversion.file.section("HeadNode"), *conversion.file.section("Scheduling").sections("SlurmQueues")]


def _software(conversion: Conversion) -> Item | None:
    image = conversion.file.section("Image")
    ami = image.text("CustomAmi")
    if image.text("Os") == UBUNTU:
        default = item("image", "dlami-ubuntu-24.04", conversion.file, "Image.Os")
        default.above = [f"Image.CustomAmi: {ami}: {NO_AMI}"] if ami else []
        default.sources += (("Image", "CustomAmi"),) if ami else ()
        return Item("software", [default])
    return Item("software", [item("image", ami, conversion.file, "Image.CustomAmi", off=NO_AMI)]) if ami else None


def _leave_open(items: list[Item], zone: Item | None, conversion: Conversion) -> None:
    """The subnet could not be looked up, and what the file names exists in its VPC only."""
    kept = ", ".join(dict.fromkeys(conversion.needs_vpc))
    why = "fill it in, without AWS credentials it is not known: aws ec2 describe-subnets prints it"
    for section in items:
        if section.key == "network":
            for each in section.below:
                if each.key == "vpc_id":
                    each.value, each.off = "vpc-ID", why
                if each.key == "subnet_id":
                    each.value = conversion.subnet
    if zone:
        zone.off = why
    conversion.check(f"fill in network.vpc_id and availability_zone: {kept} exist in one VPC")


def _header(file: str, notes: Mapping[str, list[str]]) -> list[str]:
    shown = Path(file).name if file != "<stdin>" else "a file"
    return [
        f"The cluster of {shown}, converted from AWS ParallelCluster 3. Behind each value stands the key that it comes "
        "from, without HeadNode, SlurmQueues, SlurmSettings and SharedStorage before it. docs/existing-slurm.md lists "
        "all keys; examples/reference.yaml explains ours. `gpucluster plan` says what `up` creates.",
        *notes.get(account.HEADER, []),
    ]
