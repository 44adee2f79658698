"""Keys under the names of other tools: the same value means the same as there, or it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import JobSpec, load
from gpucluster.layout import expand

LAYOUT = expand(
    loads("name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)


def read(tmp_path: Path, line: str) -> JobSpec:
    (tmp_path / "job.yaml").write_text(f"command: [python, train.py]\n{line}\n")
    return load(LAYOUT, tmp_path / "job.yaml", {})


@pytest.mark.parametrize(
    ("line", "mem"),
    [
        ("memory: 64", "64G"),
        ("memory: '64'", "64G"),
        ("memory: 64+", "64G"),
        ("memory: 0.5", "512M"),
        ("memory: 64GB", "64G"),
        ("memory: 64 GB", "64G"),
        ("memory: 64Gi", "64G"),
        ("memory: 500Mi", "500M"),
        ("memory: 16GB..", "16G"),
        ("memory: 16GB..32GB", "16G"),
        ("memory: 0.125T", "128G"),
        ("memory: 0", "0"),
        ("memory: 500K", "1M"),
        ("mem_gb: 64", "64G"),
        ("memMB: 1024", "1G"),
        ("memMB: 1000", "1000M"),
        ("mem: 64", "64"),
        ("mem: 64G", "64G"),
    ],
)
def test_memory(tmp_path: Path, line: str, mem: str) -> None:
    """GiB without a unit: SkyPilot's `memory`, "64+" for at least (yaml-spec.html), and submitit's `mem_gb`. dstack
    writes 64GB and ranges, Kubernetes 64Gi, TorchX memMB. `mem` is Slurm's, in MiB."""
    assert read(tmp_path, line).mem == mem


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("accelerators: A10G:2", 2),
        ("accelerators: A10G", 1),
        ("accelerators: {A10G: 2}", 2),
        ("gpu: 2", 2),
        ("gpu: a10g:2", 2),
        ("gpus: 3", 3),
    ],
)
def test_gpus(tmp_path: Path, line: str, gpus: int) -> None:
    assert read(tmp_path, line).gpus_per_node == gpus


def test_time_in_minutes(tmp_path: Path) -> None:
    """submitit's timeout_min."""
    assert read(tmp_path, "timeout_min: 90").time == "01:30:00"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cpus: 8", "cpus: counts the CPUs of a node in other tools; write cpus_per_task: the CPUs of each rank"),
        ("cpu: 4+", "cpu: counts the CPUs of a node in other tools"),
        ("disk_size: 256", "disk_size: a job has no disk of its own"),
        ("disk: 100GB..", "disk: a job has no disk of its own"),
        ("accelerators: H100:2", "accelerators: the nodes of train have A10G GPUs, got H100"),
        ("gpu: {A100-80GB: 2}", "gpu: the nodes of train have A10G GPUs, got A100-80GB"),
        ("accelerators: {A10G: 1, H100: 1}", "accelerators: must be a whole number"),
        ("gpu: 24GB", "gpu: must be a whole number"),
        ("gpus: all", "gpus: must be a whole number"),
        ("gpu: auto", "gpu: must be a whole number"),
        ("memory: lots", "memory: must be a size for each node such as 64G"),
    ],
)
def test_what_is_no_value_here(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(JobSpecError) as raised:
        read(tmp_path, line)
    (found,) = raised.value.problems
    assert said in f"{found.key}: {found.message}; {found.hint}" and found.line == 2
