"""The node lines of slurm.conf, against what Slurm 23.11.4 did with such lines: tests/data/slurm has the record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from moto.utilities.utils import load_resource

from gpucluster import config, render
from gpucluster.hardware.instances import INSTANCE_TYPES, InstanceType
from gpucluster.layout import expand

ROOT = Path(__file__).resolve().parents[3]
MASKS = ROOT / "tests/data/slurm/slurmd-23.11.4-cpu-masks.txt"
EXAMPLES = [ROOT / "cluster.yaml", *sorted((ROOT / "examples").glob("*.yaml"))]
CATALOGUE: dict[str, Any] = load_resource("ec2/resources/instance_types.json")


class Hardware(NamedTuple):
    cores: int
    threads_per_core: int

    @property
    def cpus(self) -> int:
        return self.cores * self.threads_per_core


class Form(NamedTuple):
    """How a node line describes its hardware."""

    threads_per_core: str
    cpus: str


def form(line: str, hardware: Hardware) -> Form:
    said = {
        key: int(number) for key, number in re.findall(r"\b(CPUs|Sockets|CoresPerSocket|ThreadsPerCore)=(\d+)", line)
    }
    cpus = said["CPUs"]
    sockets, cores, threads = (said.get(key) for key in ("Sockets", "CoresPerSocket", "ThreadsPerCore"))
    if sockets is None or cores is None or threads is None:
        return Form("not said", "all" if cpus == hardware.cpus else "fewer")
    assert sockets * cores * threads == cpus, line
    return Form(
        "real" if threads == hardware.threads_per_core else "other",
        "all" if cpus == hardware.cpus else "fewer" if cpus < hardware.cpus else "more",
    )


def recorded() -> Iterator[tuple[Form, bool]]:
    """Each recorded form, and whether a job of the whole node got all CPUs of its line."""
    for block in MASKS.read_text().split("\n\n"):
        hardware = re.search(r"^hardware package:(\d+) core:(\d+) pu:(\d+)", block, re.MULTILINE)
        if hardware:
            packages, cores, threads = map(int, hardware.groups())
            line = block.splitlines()[0].partition("NodeName=")[2]
            yield form(line, Hardware(packages * cores, threads)), not re.search("0x5555", block)


RIGHT = {found for found, right in recorded() if right}
WRONG = {found for found, right in recorded() if not right}


def hardware(type_: InstanceType) -> Hardware:
    """As EC2 describes the type; P3, which moto's catalogue lacks, has two threads a core (AWS's P3 page)."""
    described = CATALOGUE.get(type_.name, {}).get("VCpuInfo")
    if not described:
        return Hardware(type_.vcpus // 2, 2)
    return Hardware(described["DefaultCores"], described["DefaultThreadsPerCore"])


def node_lines(text: str) -> dict[str, str]:
    conf = render.slurm(expand(config.loads(text)))["slurm/slurm.conf"]
    found = (line.removeprefix("NodeName=") for line in conf.splitlines() if line.startswith("NodeName="))
    return {line.partition("-")[0]: line for line in found}


def cluster(*types: str) -> str:
    """With an image of its own, because the default one has no driver for P3. Without a placement group, because EC2
    takes no burstable types into one."""
    own = "image: ami-0123456789abcdef0, placement_group: none"
    partition = f"{{name: train, instance_types: [{', '.join(types)}], max_nodes: 2, {own}}}"
    return f"name: c\nregion: us-east-1\npartitions:\n  - {partition}\n"


def test_the_record_tells_right_lines_from_wrong_ones() -> None:
    assert {Form("real", "all"), Form("real", "fewer")} == RIGHT
    assert {Form("not said", "all")} == WRONG


ONE_OF_EACH = {(each.name.partition(".")[0], each.default_threads): each for each in INSTANCE_TYPES.values()}


@pytest.mark.parametrize("type_", ONE_OF_EACH.values(), ids=lambda type_: type_.name)
def test_jobs_can_use_all_cpus_of_a_node(type_: InstanceType) -> None:
    assert form(node_lines(cluster(type_.name))["train"], hardware(type_)) == Form("real", "all")


@pytest.mark.parametrize(
    "types",
    [("g5.48xlarge", "p4d.24xlarge"), ("m6i.large", "m5.24xlarge"), ("g4dn.xlarge", "g5.16xlarge", "p5.4xlarge")],
)
def test_a_partition_of_several_types_has_a_line_that_is_right_for_each(types: tuple[str, ...]) -> None:
    line = node_lines(cluster(*types))["train"]
    assert {form(line, hardware(INSTANCE_TYPES[name])) for name in types} <= RIGHT


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_lines_of_the_examples_are_right(path: Path) -> None:
    """With the partition of parameter servers, which is not in the file."""
    layout = expand(config.load(path))
    lines = node_lines(path.read_text())
    for partition in layout.partitions:
        for type_ in partition.types:
            assert form(lines[partition.name], hardware(type_)) in RIGHT, (partition.name, type_.name)
