"""Keys with Slurm's names: sbatch's options, what is refused offline, and what `sbatch --test-only` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError, RemoteError, UsageError
from gpucluster.job import SbatchRequest, load
from gpucluster.job.slurm_keys import mib
from gpucluster.layout import Layout, expand
from gpucluster.submission import trial
from tests.in_process import InProcessRemote

CLUSTER = """
name: Test
region: us-east-1
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
parameter_servers: {instance_type: m4.16xlarge}
software: {frameworks: [torch, mxnet]}
"""
LAYOUT = expand(loads(CLUSTER))
WITHOUT_ACCOUNTING = expand(loads(CLUSTER + 'accounting: "off"\n'))


def options(layout: Layout = LAYOUT, **flags) -> list[list[str]]:
    """The keys of each part of the job."""
    spec = load(layout, flags={"command": ("python", "train.py")} | flags)
    script = SbatchRequest.from_spec(spec, layout, "/jobs/a").materialize()
    lines = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]
    first = "\n".join(lines).split("\nhetjob\n")
    return [part.split("\n") for part in first]


def refused(layout: Layout = LAYOUT, **flags) -> str:
    with pytest.raises(JobSpecError) as caught:
        options(layout, **flags)
    (notice,) = caught.value.problems
    return f"{notice.key}: {notice.message}"


@pytest.mark.parametrize(
    ("key", "value", "option"),
    [
        ("account", "ml", "--account=ml"),
        ("qos", "high", "--qos=high"),
        ("mem", "64G", "--mem=64G"),
        ("mem", 4096, "--mem=4096"),
        ("mem_per_gpu", "16G", "--mem-per-gpu=16G"),
        ("cpus_per_task", 8, "--cpus-per-task=32"),  # torchrun is one Slurm task, with 4 ranks
        ("constraint", "a&(b|c)", "--constraint=a&(b|c)"),
        ("constraint", "[rack1*2&rack2*2]", "--constraint=[rack1*2&rack2*2]"),
        ("reservation", "mine,yours", "--reservation=mine,yours"),
        ("dependency", "afterok:20:21,afterany:23_4,singleton", "--dependency=afterok:20:21,afterany:23_4,singleton"),
        ("dependency", "after:20+5", "--dependency=after:20+5"),
        ("begin", "now+2hours", "--begin=now+2hours"),
        ("begin", "2027-01-20T12:34:00", "--begin=2027-01-20T12:34:00"),
    ],
)
def test_a_key_is_an_option_of_sbatch(key, value, option):
    (found,) = options(**{key: value})
    assert option in found


def test_slurm_gives_each_rank_its_cpus_where_it_starts_the_ranks():
    assert "--cpus-per-task=8" in options(launcher="srun", cpus_per_task=8)[0]
    assert "--cpus-per-task=8" in options(launcher="srun", cpus_per_task=8, exclusive=False)[0]
    assert not [option for option in options(launcher="srun")[0] if option.startswith("--cpus")]


def test_memory_of_whole_and_of_shared_nodes():
    assert [each for each in options()[0] if each.startswith("--mem")] == ["--mem=0"]
    assert [each for each in options(mem="8G")[0] if each.startswith("--mem")] == ["--mem=8G"]
    assert [each for each in options(mem_per_gpu="8G")[0] if each.startswith("--mem")] == ["--mem-per-gpu=8G"]
    assert not [each for each in options(exclusive=False)[0] if each.startswith("--mem")]


def test_nodes_of_servers_are_charged_too_and_wait_with_the_workers():
    keys = {"account": "ml", "qos": "high", "mem": "8G", "constraint": "a", "begin": "16:00"}
    workers, servers = options(launcher="mxnet-ps", servers={"nodes": 1}, **keys)
    assert {"--account=ml", "--qos=high", "--mem=8G", "--constraint=a", "--begin=16:00"} <= set(workers)
    assert {"--account=ml", "--qos=high", "--mem=0"} <= set(servers)
    assert not {"--mem=8G", "--constraint=a", "--begin=16:00"} & set(servers)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"mem": "much"}, "--mem: must be a size for each node such as 64G, or 0 for all; without a unit: MiB"),
        ({"mem": "193G"}, "--mem: a node of train (g5.12xlarge) has 192 GiB, got 193G"),
        (
            {"mem_per_gpu": "49G"},
            "--mem-per-gpu: a node of train (g5.12xlarge) has 192 GiB, got 49G for each of 4 GPUs",
        ),
        ({"mem_per_gpu": "1G", "mem": "8G"}, "--mem-per-gpu: mem is set too, and Slurm takes one of them"),
        (
            {"mem_per_gpu": "1G", "partition": "ps", "launcher": "srun", "ntasks_per_node": 1},
            "--mem-per-gpu: the job has no GPUs",
        ),
        ({"cpus_per_task": 13}, "--cpus-per-task: a node of train (g5.12xlarge) has 48 CPUs, got 13 for each of 4"),
        ({"account": "a b"}, "--account: must be one name that Slurm knows"),
        ({"dependency": "12"}, "--dependency: must be conditions of sbatch joined by commas, such as afterok:12"),
        ({"dependency": "afterok:12,"}, "--dependency: must be conditions of sbatch"),
        ({"dependency": "afterok:1?afterok:2"}, "--dependency: must be conditions of sbatch"),
        ({"begin": "in an hour"}, "--begin: must be a time such as 16:00"),
    ],
)
def test_refused(flags, said):
    assert refused(**flags).startswith(said)


@pytest.mark.parametrize("key", ["account", "qos"])
def test_accounts_need_accounting(key):
    assert refused(WITHOUT_ACCOUNTING, **{key: "a"}) == (
        f"--{key}: the cluster Test has `accounting: off`, so Slurm knows no {key}"
    )


def test_sizes_as_slurm_reads_them():
    sizes = {"1": 1, "2048K": 2, "3m": 3, "4MB": 4, "1G": 1024, "1T": 2**20}
    assert {text: mib(text) for text in sizes} == sizes


def sbatch(tmp_path: Path, monkeypatch, text: str) -> None:
    program = tmp_path / "sbatch"
    program.write_text(f"#!/bin/sh\ncat >{tmp_path}/script\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_the_start_that_slurm_expects(tmp_path, monkeypatch):
    said = "Job 1 to start at 2026-11-23T01:39:20 using 1 processors on nodes lab in partition local"  # Slurm 24.11.5
    sbatch(tmp_path, monkeypatch, f"echo 'sbatch: {said}' >&2")
    found = trial.expected(InProcessRemote(), "#!/bin/sh\n")
    assert found == trial.Expected("2026-11-23T01:39:20", 1, "lab", "local")
    assert (tmp_path / "script").read_text() == "#!/bin/sh\n"


def test_the_start_of_a_job_in_several_parts_has_no_partition():
    found = trial.parse("sbatch: Job 3 to start at 2026-11-23T01:39:20 using 2 processors on lab\n")  # Slurm 24.11.5
    assert found == trial.Expected("2026-11-23T01:39:20", 2, "lab", None)


def test_a_job_that_slurm_would_reject(tmp_path, monkeypatch):
    sbatch(tmp_path, monkeypatch, "echo 'allocation failure: Invalid feature specification' >&2; exit 1")
    with pytest.raises(UsageError, match="Slurm would reject the job: Invalid feature specification"):
        trial.expected(InProcessRemote(), "#!/bin/sh\n")


def test_a_controller_that_does_not_answer_has_rejected_nothing(tmp_path, monkeypatch):
    said = "allocation failure: Unable to contact slurm controller (connect failure)"
    sbatch(tmp_path, monkeypatch, f"echo '{said}' >&2; exit 1")
    with pytest.raises(RemoteError, match=r"Slurm did not report when the job would start: exit code 1: .*controller"):
        trial.expected(InProcessRemote(), "#!/bin/sh\n")


def test_slurm_gives_out_less_than_a_node_has():
    allocated = expand(loads(CLUSTER + "slurm: {memory: allocated}\n"))
    (found,) = options(allocated, mem="182G")
    assert "--mem=182G" in found
    assert refused(allocated, mem="183G") == "--mem: a node of train (g5.12xlarge) has 186777 MiB for jobs, got 183G"
