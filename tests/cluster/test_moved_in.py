"""Keys that clusters from ParallelCluster have, on booted nodes: memory that Slurm allocates, threads off, types as
features, lines and options, root disks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from bed import Bed, wait_for
from beds import opened

SLURM = """\
name: MovedIn
region: us-east-1
head_node: {instance_type: m6i.large, volume_gib: 50, root_volume: {gib: 120, throughput_mibps: 250}}
partitions:
  - name: train
    instance_types: [g4dn.12xlarge]
    max_nodes: 1
    threads_per_core: 1
    root_volume: {gib: 150, iops: 4000, throughput_mibps: 500}
    partition_options: {MaxTime: 2-0, OverSubscribe: "NO"}
    node_options: {Weight: 5, Feature: fast}
slurm:
  memory: allocated
  slurm_conf: |
    KillWait=45                 # instead of GpuCluster's 10
    LaunchParameters=use_interactive_step
"""
CORES, MEMORY_MIB = 24, 186777  # of a g4dn.12xlarge: half of its 48 threads, 95 % of its 192 GiB


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with opened(replace(Bed.make(tmp_path_factory.mktemp("moved")), python="/home/plain")) as bed:
        bed.config.write_text(SLURM)
        bed.up()
        bed.ssh("sh", "-c", f"sudo mkdir -p {bed.python}/bin && sudo ln -s /usr/bin/python3 {bed.python}/bin/python")
        yield bed


def sbatch(bed: Bed, *options: str, runs: str = "sleep 300") -> str:
    return bed.ssh("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap", runs).strip()


def refused(bed: Bed, *options: str) -> str:
    words = " ".join(options)
    return bed.ssh("sh", "-c", f"sbatch {words} --output=/dev/null --wrap true 2>&1 || :")


def of_job(bed: Bed, job_id: str, form: str) -> str:
    return bed.ssh("squeue", "--noheader", f"--jobs={job_id}", f"--format={form}").strip()


def settings_of(bed: Bed) -> dict[str, str]:
    lines = (line.partition(" = ") for line in bed.ssh("scontrol", "show", "config").splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def test_slurm_has_the_lines_the_options_and_the_cores(moved: Bed) -> None:
    settings = settings_of(moved)
    assert settings["KillWait"] == "45 sec" and settings["LaunchParameters"] == "use_interactive_step"
    assert settings["SelectTypeParameters"] == "CR_CPU_MEMORY"
    node = moved.ssh("scontrol", "--oneliner", "show", "node", "train-1").split()
    assert {f"CPUTot={CORES}", "ThreadsPerCore=1", f"RealMemory={MEMORY_MIB}", "Weight=5"} <= set(node)
    assert "AvailableFeatures=g4dn.12xlarge,fast" in node
    partition = moved.ssh("scontrol", "--oneliner", "show", "partition", "train").split()
    assert {"MaxTime=2-00:00:00", f"DefMemPerCPU={MEMORY_MIB // CORES}"} <= set(partition)


def test_jobs_get_the_memory_that_they_ask_for_or_their_part(moved: Bed) -> None:
    first = sbatch(moved, "--mem=100G", "--cpus-per-task=2", "--constraint=g4dn.12xlarge&fast")
    wait_for("it runs", lambda: of_job(moved, first, "%T") == "RUNNING", 240)
    too_much = sbatch(moved, "--mem=100G", "--cpus-per-task=2")
    fits = sbatch(moved, "--cpus-per-task=2")
    wait_for("the small one runs beside it", lambda: of_job(moved, fits, "%T") == "RUNNING", 60)
    assert of_job(moved, too_much, "%T %r") in ("PENDING Resources", "PENDING Priority")
    shown = moved.ssh("scontrol", "--oneliner", "show", "job", fits)
    assert f"mem={2 * (MEMORY_MIB // CORES)}M" in shown, shown
    assert "Batch job submission failed" in refused(moved, f"--mem={MEMORY_MIB + 1}")
    assert "Invalid feature specification" in refused(moved, "--constraint=g5.48xlarge")
    moved.ssh("scancel", first, too_much, fits)


def test_submit_asks_for_memory_by_the_gpu(moved: Bed) -> None:
    one = ("--gpus-per-node", "1", "--no-exclusive", "--launcher", "srun", "--preflight", "off")
    job = moved.submit(*one, "--mem-per-gpu", "8G", "--follow", "--", "sh", "-c", "echo $SLURM_MEM_PER_GPU")
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    assert any(line.endswith("8192") for line in job.log), job.log
    refusal = moved.gpucluster("submit", *one, "--mem-per-gpu", "190G", "--", "true")
    assert refusal.returncode == 2 and f"has {MEMORY_MIB} MiB for jobs, got 190G for each of 1 GPUs" in refusal.stderr


def test_ec2_has_the_disks_and_the_threads(moved: Bed) -> None:
    ec2 = moved.client("ec2")
    wait_for("a node runs", lambda: bool(moved.instances("compute")), 60)
    assert disk(ec2, *moved.instances("head")) == (120, 3000, 250)
    assert disk(ec2, *moved.instances("compute")) == (150, 4000, 500)
    templates = ec2.describe_launch_templates()["LaunchTemplates"]
    versions = [
        ec2.describe_launch_template_versions(LaunchTemplateId=each["LaunchTemplateId"])["LaunchTemplateVersions"][-1]
        for each in templates
    ]
    options = [each["LaunchTemplateData"].get("CpuOptions") for each in versions]
    assert {"CoreCount": CORES, "ThreadsPerCore": 1} in options


def disk(ec2: Any, instance: str) -> tuple[int, int, int]:
    (shown,) = [
        each
        for each in ec2.describe_volumes()["Volumes"]
        for place in each["Attachments"]
        if (place["InstanceId"], place["Device"]) == (instance, "/dev/sda1")
    ]
    return shown["Size"], shown["Iops"], shown["Throughput"]


def test_a_value_that_slurm_refuses_leaves_the_old_file_and_an_option_changes_in_place(moved: Bed) -> None:
    moved.config.write_text(SLURM.replace("KillWait=45", "KillWait=soon"))
    done = moved.gpucluster("up", "--local", "--port", str(moved.port), timeout_s=420)
    assert done.returncode != 0 and 'KillWait value "soon" is not a valid number' in done.stderr + done.stdout
    assert settings_of(moved)["KillWait"] == "45 sec"
    moved.config.write_text(SLURM.replace("MaxTime: 2-0", "MaxTime: 3-0"))
    assert [change["effect"] for change in moved.up()["changes"]] == ["in place"]
    wait_for("the new limit", lambda: "MaxTime=3-00:00:00" in moved.ssh("scontrol", "show", "partition", "train"), 60)
    moved.config.write_text(SLURM)
    assert moved.up()["changed"]
