"""The keys of a job that are passed on to Slurm under Slurm's names: the sbatch options, and the values that do not fit
the cluster.

Grammars: man sbatch.1 of Slurm 23.11; sizes as `str_to_mbytes` reads them (src/common/proc_args.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from gpucluster import job_keys
from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.job import channels, log_place
from gpucluster.job.spec import JobSpec
from gpucluster.layout import Partition

_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


def passed_on(spec: JobSpec, part: Literal["each part", "workers"]) -> Iterator[str]:
    """Options of each part of a heterogeneous job, or of the first, which has the workers."""
    for key in job_keys.of_job():
        if key.passed_on == part and (value := getattr(spec, key.name)):
            yield f"--{key.sbatch}={value}"


def mib(mem: str) -> float:
    number, unit = re.fullmatch(r"(\d+)([KMGT]?)B?", mem.upper()).groups()  # type: ignore[union-attr]
    return int(number) * _MIB[unit or "M"]


def check(spec: JobSpec, partition: Partition | None, config: ClusterConfig) -> Iterator[Finding]:
    if config.accounting == "off":
        for key in ("account", "qos"):
            if getattr(spec, key):
                off = f"the cluster {config.name} has `accounting: off`, so Slurm knows no {key}"
                yield Finding((key,), off, "leave it out, or set accounting: local in cluster.yaml")
    if partition:
        yield from _size(spec, partition, config.slurm.memory == "allocated")
    if spec.output:
        yield from _output(spec, spec.output, config)


def _size(spec: JobSpec, partition: Partition, allocated: bool) -> Iterator[Finding]:
    node = f"a node of {partition.name} ({partition.types[0].name})"
    yield from _memory(spec, partition, node, allocated)
    cpus = min(kind.vcpus for kind in partition.types)
    asked = (spec.cpus_per_task or 0) * spec.ranks_per_node
    if asked > cpus:
        ranks = f"{spec.cpus_per_task} for each of {spec.ranks_per_node} ranks"
        yield Finding(
            ("cpus_per_task",), f"{node} has {cpus} CPUs, got {ranks}", f"at most {cpus // spec.ranks_per_node}"
        )


def _memory(spec: JobSpec, partition: Partition, node: str, allocated: bool) -> Iterator[Finding]:
    most = partition.memory_mib if allocated else min(kind.memory_gib for kind in partition.types) * 1024
    has = f"{node} has {most} MiB for jobs" if allocated else f"{node} has {most // 1024:g} GiB"
    if spec.mem and mib(spec.mem) > most:
        yield Finding(("mem",), f"{has}, got {spec.mem}", "ask for less, or choose another partition")
    if not spec.mem_per_gpu:
        return
    if spec.mem:
        yield Finding(("mem_per_gpu",), "mem is set too, and Slurm takes one of them", "remove one of the two")
    elif not spec.gpus_per_node:
        yield Finding(("mem_per_gpu",), "the job has no GPUs", "write mem, the memory on each node")
    elif mib(spec.mem_per_gpu) * spec.gpus_per_node > most:
        asked = f"{spec.mem_per_gpu} for each of {spec.gpus_per_node} GPUs"
        yield Finding(("mem_per_gpu",), f"{has}, got {asked}", "ask for less, or choose another partition")


def _output(spec: JobSpec, path: str, config: ClusterConfig) -> Iterator[Finding]:
    symbols = log_place.symbols(path)
    if "a" in symbols and not spec.elements:
        none = f"%a is the index of an element, and the job has no array and no sweep, got {path!r}"
        yield Finding(("output",), none, "remove %a: %j is the job's id")
    if len(spec.elements) > 1 and not symbols & {"a", "j"}:
        same = f"all {len(spec.elements)} elements would write to one file, got {path!r}"
        yield Finding(("output",), same, "add %a, the element's index, such as logs/%x-%A_%a.out")
    if path.startswith("/") and (problem := channels.not_shared(path, config)):
        hint = "name a file there, or in your home directory, such as logs/%x-%j.out"
        yield Finding(("output",), problem, hint)
