"""What the keys of `slurm` and of partitions change in Slurm's files."""

from __future__ import annotations

from gpucluster import config, render
from gpucluster.layout import expand

CLUSTER = """
name: c
region: us-east-1
partitions:
  - {name: train, instance_types: [g4dn.12xlarge], max_nodes: 4}
  - {name: cpu, instance_types: [c7a.large], max_nodes: 4}
"""


def files(more: str = "", **partition: str) -> dict[str, str]:
    text = CLUSTER
    for key, value in partition.items():
        text = text.replace("{name: train,", f"{{name: train, {key}: {value},")
    return render.slurm(expand(config.loads(text + more)))


def lines(conf: str, start: str) -> list[str]:
    return [line for line in conf.splitlines() if line.startswith(start)]


def test_slurm_counts_no_memory_by_default() -> None:
    made = files()
    assert lines(made["slurm/slurm.conf"], "SelectTypeParameters") == ["SelectTypeParameters=CR_CPU"]
    assert "DefMemPerCPU" not in made["slurm/slurm.conf"] and "RAM" not in made["slurm/cgroup.conf"]


def test_allocated_memory_is_counted_limited_and_by_default_a_jobs_part_of_the_cpus() -> None:
    made = files("slurm: {memory: allocated}\n")
    conf = made["slurm/slurm.conf"]
    assert lines(conf, "SelectTypeParameters") == ["SelectTypeParameters=CR_CPU_Memory"]
    assert lines(made["slurm/cgroup.conf"], "ConstrainRAM") == ["ConstrainRAMSpace=yes"]
    train, cpu = lines(conf, "PartitionName=")
    # 95 % of 192 and of 4 GiB, over 48 and over 2 CPUs
    assert " RealMemory=186777 " in conf and " DefMemPerCPU=3891 " in train
    assert " RealMemory=3891 " in conf and " DefMemPerCPU=1945 " in cpu
    assert 3891 * 48 <= 186777 and 1945 * 2 <= 3891, "a job of all CPUs must fit"


def test_nodes_of_one_type_have_it_as_a_feature() -> None:
    """Slurm rejects a job whose feature no node has; which of several types a node will be, only its launch tells."""
    found = lines(files()["slurm/slurm.conf"], "NodeName=")
    assert [line.partition(" State=CLOUD")[2] for line in found] == [" Feature=g4dn.12xlarge", " Feature=c7a.large"]
    several = CLUSTER.replace("[g4dn.12xlarge]", "[g4dn.12xlarge, g5.12xlarge]")
    conf = render.slurm(expand(config.loads(several)))["slurm/slurm.conf"]
    (line,) = lines(conf, "NodeName=train")
    assert line.endswith(" State=CLOUD")


def test_with_threads_off_a_cpu_of_slurm_is_a_core() -> None:
    (line,) = lines(files(threads_per_core="1")["slurm/slurm.conf"], "NodeName=train")
    assert " CPUs=24 Sockets=1 CoresPerSocket=24 ThreadsPerCore=1 " in line
