"""The jobs of this node, and how busy each kept the node and its GPUs.

The prolog writes a file for each job, and the epilog removes it (programs/bin/job-samples). Then the summary goes into
the job's folder, which belongs to its user and may hold anything: a process of the user writes it.
"""

from __future__ import annotations

import json
import logging
import math
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucluster_node.watch.nvml import Gpu

log = logging.getLogger("sampler")
JOBS = Path("/run/gpucluster/jobs")
MOST_KEPT = 1024
"""Samples of a job. Then every second one is dropped, and only every second further one is kept."""
IDLE_PERCENT = 5
"""A GPU that is less busy is idle."""
LONGEST_S = 30.0
"""From one sample to the next, for a job's energy: a clock that is set forward by an hour is no hour of power."""
GIB = 2**30

_WRITE = """
cd "$1" && [ -f job.sbatch ] && mkdir -p "usage/$2" && cd "usage/$2" && cat >".$3" && mv ".$3" "$3"
"""


@dataclass(frozen=True)
class Job:
    job_id: str
    uid: int
    gid: int
    gpus: frozenset[int]
    """Numbers of /dev/nvidiaN."""
    folder: str
    """The folder above its working directory: the job's own if `gpucluster submit` made it."""


def running(folder: Path = JOBS) -> dict[str, Job]:
    try:
        files = [path for path in folder.iterdir() if path.name.isdecimal()]
    except OSError:
        return {}
    return {job.job_id: job for path in files if (job := _read(path))}


def _read(path: Path) -> Job | None:
    """Fields that end with NUL, because a user names the folder: uid, gid, GPUs, folder. None if it is gone."""
    try:
        uid, gid, gpus, folder, _ = path.read_bytes().split(b"\0")
        return Job(path.name, int(uid), int(gid), _numbers(gpus.decode()), folder.decode(errors="surrogateescape"))
    except (OSError, ValueError):
        return None


def _numbers(text: str) -> frozenset[int]:
    """`0,2-3`, as Slurm lists GPUs."""
    ranges = (each.partition("-") for each in text.split(",") if each)
    return frozenset(number for first, _, last in ranges for number in range(int(first), int(last or first) + 1))


@dataclass
class Kept:
    """Samples, thinned out evenly so that there are never more than MOST_KEPT."""

    times: list[float] = field(default_factory=list)
    samples: list[Mapping[str, float]] = field(default_factory=list)
    _every: int = 1
    _count: int = 0

    def add(self, time_s: float, sample: Mapping[str, float]) -> None:
        if self._count % self._every == 0:
            self.times.append(time_s)
            self.samples.append(sample)
        self._count += 1
        if len(self.samples) >= MOST_KEPT:
            self.times, self.samples, self._every = self.times[::2], self.samples[::2], self._every * 2

    def of(self, name: str) -> list[float]:
        return [sample[name] for sample in self.samples if not math.isnan(sample.get(name, math.nan))]


@dataclass
class Usage:
    """How busy the node was while the job had it."""

    job: Job
    start_s: float
    end_s: float = 0.0
    kept: Kept = field(default_factory=Kept)
    gpus: set[int] = field(default_factory=set)
    joules: dict[int, float] = field(default_factory=dict)
    """GPU -> its energy: power times the time since the sample before."""

    def add(self, time_s: float, sample: Mapping[str, float], gpus: Collection[Gpu]) -> None:
        passed, self.end_s = min(max(0.0, time_s - (self.end_s or time_s)), LONGEST_S), time_s
        values = dict(sample)
        for gpu in gpus:
            if gpu.minor not in self.job.gpus:
                continue
            self.gpus.add(gpu.index)
            values.update(_of_gpu(gpu))
            if not math.isnan(gpu.power_w):
                self.joules[gpu.index] = self.joules.get(gpu.index, 0.0) + gpu.power_w * passed
        self.kept.add(time_s, values)

    def summary(self, node: str) -> dict[str, Any]:
        """usage/JOB/NODE.json in the job's folder, which elements of an array, and runs after each other, share."""
        return {
            "job": self.job.job_id,
            "node": node,
            "start_s": round(self.start_s, 1),
            "end_s": round(self.end_s, 1),
            "samples": len(self.kept.samples),
            **_statistics(self.kept, "", ("cpu_percent", "memory_gib", "job_memory_gib", "efa_gib_s")),
            "gpus": [self._gpu(index) for index in sorted(self.gpus)],
        }

    def _gpu(self, index: int) -> dict[str, Any]:
        use = self.kept.of(f"{index} util_percent")
        idle = sum(value < IDLE_PERCENT for value in use) / len(use) if use else None
        return {
            "index": index,
            **_statistics(self.kept, f"{index} ", ("util_percent", "memory_gib", "power_w", "temperature_c")),
            "energy_kwh": round(self.joules[index] / 3.6e6, 6) if index in self.joules else None,
            "idle_share": None if idle is None else round(idle, 4),
        }


def _of_gpu(gpu: Gpu) -> dict[str, float]:
    return {
        f"{gpu.index} util_percent": gpu.util_percent,
        f"{gpu.index} memory_gib": gpu.memory_used / GIB,
        f"{gpu.index} power_w": gpu.power_w,
        f"{gpu.index} temperature_c": gpu.temperature_c,
    }


def _statistics(kept: Kept, prefix: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
    found = ((name, sorted(kept.of(prefix + name))) for name in names)
    return {
        name: {
            "mean": round(sum(values) / len(values), 3),
            "max": round(values[-1], 3),
            "p95": round(values[min(len(values) - 1, int(0.95 * len(values)))], 3),
        }
        for name, values in found
        if values
    }


def write(usage: Usage, node: str) -> subprocess.Popen[bytes] | None:
    """As the job's user, and not waited for: the file system may not answer."""
    job = usage.job
    argv = ["timeout", "--signal=KILL", "60", "/bin/sh", "-c", _WRITE, "sh", job.folder, job.job_id, f"{node}.json"]
    environment = {"PATH": "/usr/bin:/bin"}
    try:
        writer = subprocess.Popen(
            argv,
            user=job.uid,
            group=job.gid,
            extra_groups=[],
            cwd="/",
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("job %s: no summary: %s", job.job_id, error)
        return None
    _feed(writer, json.dumps(usage.summary(node)).encode() + b"\n")
    return writer


def _feed(writer: subprocess.Popen[bytes], data: bytes) -> None:
    """A pipe has room for 64 KiB, so that this never waits for the writer."""
    assert writer.stdin
    try:
        writer.stdin.write(data[:60_000])
        writer.stdin.close()
    except OSError as error:
        log.warning("no summary: %s", error)


def ended(before: Mapping[str, Usage], now: Mapping[str, Job]) -> Iterator[Usage]:
    return (usage for job_id, usage in before.items() if job_id not in now)
