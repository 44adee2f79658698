"""Which jobs get a file system in their nodes' memory, and the settings that their nodes get."""

from __future__ import annotations

import json
import re

import pytest

from gpucluster import render
from gpucluster.config import ClusterConfig, loads
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand

BASE = """
name: c
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 4}
  - {name: other, instance_types: [g5.12xlarge], max_nodes: 4}
s3_access: [{uri: "s3://bucket/in"}, {uri: "s3://bucket/out", access: read-write}]
"""
RAM = """
storage:
  - {mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 64, scope: SCOPE,
     source: "s3://bucket/in", export: "s3://bucket/out"}
"""
WITH_RAM = BASE + RAM.replace("SCOPE", "job")


def request(config: ClusterConfig, **flags: object) -> SbatchRequest:
    layout = expand(config)
    return SbatchRequest.from_spec(load(layout, flags={"command": ("true",), "nodes": 2} | flags), layout, "/home/j")


def memory_mib(config: ClusterConfig, partition: str) -> int:
    conf = render.bundle(config)["slurm/slurm.conf"]
    found = re.search(rf"^NodeName={partition}-\S+ .*RealMemory=(\d+)", conf, re.MULTILINE)
    assert found
    return int(found[1])


def test_a_job_of_the_partition_gets_it() -> None:
    asked = request(loads(WITH_RAM))
    script = asked.materialize()
    assert "export GPUCLUSTER_RAM=/ram GPUCLUSTER_RAM_EXPORT=s3://bucket/out\n" in script
    assert script.index("GPUCLUSTER_RAM=") < script.index("\nexec ")


@pytest.mark.parametrize(("text", "flags"), [(WITH_RAM, {"partition": "other"}), (BASE, {})])
def test_other_jobs_do_not(text: str, flags: dict[str, object]) -> None:
    asked = request(loads(text), **flags)
    assert "ram" not in asked.materialize().lower().replace("paramet", "").replace("program", "")


def test_nodes_know_what_it_is_filled_from_and_written_back_to() -> None:
    settings = json.loads(render.bundle(loads(WITH_RAM))["beegfs.json"])
    assert {key: settings[key] for key in ("mount", "scope", "source", "export")} == {
        "mount": "/ram",
        "scope": "job",
        "source": "s3://bucket/in",
        "export": "s3://bucket/out",
    }


def test_slurm_counts_on_what_it_leaves_of_its_nodes_memory_alone() -> None:
    without, with_ram = loads(BASE), loads(WITH_RAM)
    taken_gib = 64 + 2  # metadata: a thirty-second part
    assert memory_mib(without, "train") - memory_mib(with_ram, "train") == pytest.approx(taken_gib * 1024, abs=1)
    assert memory_mib(without, "other") == memory_mib(with_ram, "other")
