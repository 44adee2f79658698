"""Samples this node: its GPUs, processors, memory and EFA interfaces, and what its jobs use and report.

A sample is taken every INTERVAL_S. node_exporter serves the newest one, from a file; the samples of each job become a
summary when it ends, so that also a job that is shorter than Prometheus's interval has one.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpucluster_node import files
from gpucluster_node.log import start_logging
from gpucluster_node.watch import jobs, machine, metrics
from gpucluster_node.watch.gpus import Gpus
from gpucluster_node.watch.jobs import GIB, Job, Usage
from gpucluster_node.watch.machine import JobGroup, Machine
from gpucluster_node.watch.nvml import Gpu
from gpucluster_node.watch.textfile import Textfile

log = logging.getLogger("sampler")
INTERVAL_S = 2.0
WRITE_EVERY = 2
"""Samples for one file: Prometheus reads it every 10 s."""
MOST_METRICS = 10_000
"""The limit for all jobs of a node together: Prometheus refuses everything of one that sends more than `sample_limit`
(steps/watch/prometheus.sh), and one user may have many jobs."""
TEXTFILE = Path("/run/gpucluster/samples/gpucluster.prom")


@dataclass(frozen=True)
class Sample:
    time_s: float
    machine: Machine
    gpus: list[Gpu]
    cpu_percent: float = 0.0
    efa_bytes_s: float = math.nan

    def after(self, before: Sample | None) -> Sample:
        """With the rates since the sample before."""
        if before is None or self.time_s <= before.time_s:
            return self
        busy = machine.busy_percent(before.machine.cpu_s, self.machine.cpu_s)
        rate = math.nan
        if self.machine.efa:
            moved = self.machine.efa_bytes - before.machine.efa_bytes
            rate = max(0.0, moved / (self.time_s - before.time_s))
        return Sample(self.time_s, self.machine, self.gpus, busy, rate)

    def values(self, group: JobGroup | None) -> dict[str, float]:
        """For the summary of a job."""
        return {
            "cpu_percent": self.cpu_percent,
            "memory_gib": self.machine.memory_used / GIB,
            "job_memory_gib": group.memory / GIB if group else math.nan,
            "efa_gib_s": self.efa_bytes_s / GIB,
        }


@dataclass
class Sampler:
    node: str
    gpus: Gpus
    root: Path = Path("/")
    jobs_folder: Path = jobs.JOBS
    metrics_folder: Path = metrics.METRICS
    usages: dict[str, Usage] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=dict)
    """Job -> the names of its metrics."""
    groups: dict[str, JobGroup] = field(default_factory=dict)
    before: Sample | None = None
    writers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def take(self) -> Sample:
        """Takes a sample, for the jobs that run now; finishes those that have ended."""
        now = Sample(time.time(), machine.read(self.root), self.gpus.read())
        self.before = now = now.after(self.before)
        running = jobs.running(self.jobs_folder)
        self._finish(running)
        groups = {job_id: machine.job_group(job_id, self.root) for job_id in running}
        self.groups = {job_id: group for job_id, group in groups.items() if group}
        for job_id, job in running.items():
            usage = self.usages.setdefault(job_id, Usage(job, now.time_s))
            usage.add(now.time_s, now.values(groups[job_id]), now.gpus)
        return now

    def _finish(self, running: Mapping[str, Job]) -> None:
        self.writers = [writer for writer in self.writers if writer.poll() is None]
        for usage in list(jobs.ended(self.usages, running)):
            del self.usages[usage.job.job_id]
            self.names.pop(usage.job.job_id, None)
            if writer := jobs.write(usage, self.node):
                self.writers.append(writer)

    def text(self, sample: Sample) -> str:
        """In Prometheus's format."""
        file = Textfile()
        _of_machine(file, sample)
        for gpu in sample.gpus:
            _of_gpu(file, gpu)
        left = MOST_METRICS
        for job_id, usage in self.usages.items():
            file.gauge("gpucluster_job_info", 1, job=job_id, gpus=",".join(map(str, sorted(usage.gpus))))
            if group := self.groups.get(job_id):
                file.counter("gpucluster_job_cpu_seconds_total", group.cpu_s, job=job_id)
                file.gauge("gpucluster_job_memory_bytes", group.memory, job=job_id)
            known = self.names.setdefault(job_id, set())
            reported = metrics.newest(job_id, usage.job.uid, known, self.metrics_folder)
            for name, value in sorted(reported.items())[:left]:
                file.gauge("gpucluster_job_metric", value, job=job_id, name=name)
                left -= 1
        return file.text


def _of_machine(file: Textfile, sample: Sample) -> None:
    file.gauge("gpucluster_cpu_percent", sample.cpu_percent)
    for mode, seconds in sample.machine.cpu_s.items():
        file.counter("gpucluster_cpu_seconds_total", seconds, mode=mode)
    for (interface, counter), value in sample.machine.efa.items():
        file.counter("gpucluster_efa_total", value, interface=interface, counter=counter)


def _of_gpu(file: Textfile, gpu: Gpu) -> None:
    file.gauge("gpucluster_gpu_util_percent", gpu.util_percent, gpu=gpu.index)
    file.gauge("gpucluster_gpu_memory_used_bytes", gpu.memory_used, gpu=gpu.index)
    file.gauge("gpucluster_gpu_memory_bytes", gpu.memory, gpu=gpu.index)
    file.gauge("gpucluster_gpu_power_watts", gpu.power_w, gpu=gpu.index)
    file.gauge("gpucluster_gpu_sm_clock_mhz", gpu.sm_clock_mhz, gpu=gpu.index)
    file.gauge("gpucluster_gpu_temperature_celsius", gpu.temperature_c, gpu=gpu.index)
    file.counter("gpucluster_gpu_nvlink_bytes_total", gpu.nvlink_bytes, gpu=gpu.index)
    for xid, times in gpu.xids.items():
        file.counter("gpucluster_gpu_xids_total", times, gpu=gpu.index, xid=xid)
    for reason in gpu.slowed_by:
        file.gauge("gpucluster_gpu_slowed", 1, gpu=gpu.index, reason=reason)


def main() -> None:
    start_logging()
    os.nice(10)
    TEXTFILE.parent.mkdir(parents=True, exist_ok=True)
    sampler = Sampler(socket.gethostname(), Gpus())
    count = 0
    while True:
        began = time.monotonic()
        try:
            sample = sampler.take()
            if count % WRITE_EVERY == 0:
                files.put(TEXTFILE, sampler.text(sample))
        except OSError as error:
            log.warning("no sample: %s", error)
        count += 1
        time.sleep(max(0.1, INTERVAL_S - (time.monotonic() - began)))


if __name__ == "__main__":
    main()
