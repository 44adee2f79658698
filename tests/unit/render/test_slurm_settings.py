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


def test_options_stand_on_the_partitions_and_the_nodes_lines() -> None:
    conf = files(
        partition_options='{OverSubscribe: "YES", MaxTime: 2-0, Hidden: true}',
        node_options="{Weight: 5, Feature: fast, Gres: 'licence:2'}",
    )["slurm/slurm.conf"]
    train, cpu = lines(conf, "PartitionName=")
    assert " OverSubscribe=YES MaxTime=2-0 Hidden=YES " in train and "INFINITE" not in train
    assert " MaxTime=INFINITE " in cpu
    node, _ = lines(conf, "NodeName=")
    assert " Gres=gpu:t4:4,licence:2 State=CLOUD Weight=5 Feature=g4dn.12xlarge,fast" in node
    assert lines(conf, "GresTypes") == ["GresTypes=gpu,licence"]


def test_lines_of_the_file_end_slurms_files_and_replace_ours_that_yield() -> None:
    more = """
slurm:
  slurm_conf: |
    killwait=60
    TaskProlog=/fsx/x
  cgroup_conf: ConstrainSwapSpace=yes
  gres_conf: NodeName=train-[1-4] Name=licence Count=2 Flags=CountOnly
"""
    made = files(more)
    assert made["slurm/slurm.conf"].endswith(
        "\n# slurm.slurm_conf of the cluster file.\nkillwait=60\nTaskProlog=/fsx/x\n"
    )
    assert not lines(made["slurm/slurm.conf"], "KillWait") and lines(files()["slurm/slurm.conf"], "KillWait=10")
    assert made["slurm/cgroup.conf"].endswith("\nConstrainSwapSpace=yes\n")
    assert made["slurm/gres.conf"].endswith("\nNodeName=train-[1-4] Name=licence Count=2 Flags=CountOnly\n")
    assert lines(made["slurm/slurm.conf"], "GresTypes") == ["GresTypes=gpu,licence"]
    assert lines(made["slurm/gres.conf"], "NodeName=cpu") == [], "its nodes have no GPUs"
