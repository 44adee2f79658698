"""The steps of the node's own disks and of what Slurm runs around jobs: what they write; twice, they change nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_steps import BOOTSTRAP, Machine, source_of

SOURCES = ("runner", "files", "services", "apt", "node_program", "scratch", "job_hooks")
UNIT = "etc/systemd/system/gpucluster-scratch.service"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for name in ("files", "node_program", "scratch", "job_hooks"):
        machine.step(name, machine.below(source_of(name).read_text(), "/opt/", "/etc/", "/dev/disk/"))
    machine.programs("/opt/", "/var/log/")
    for folder in ("etc/gpucluster", "dev/disk/by-id", "var/log/gpucluster"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/gpucluster/scratch").write_text(f"{tmp_path}\n")
    for name in ("systemctl", "apt-get"):
        machine.command(name)
    machine.command("hostname", "echo train-2")
    return machine


def run(machine: Machine, step: str = "scratch", *, gigabytes: int = 3800, scratch: str = "yes") -> list[str]:
    """Its calls of systemctl and apt-get."""
    before = len(machine.calls())
    header = (
        f"JOB_USER=ubuntu\nreport_failure() {{ :; }}\n"
        f"this_machine() {{ NVME_GB={gigabytes}; }}\nthis_partition() {{ SCRATCH={scratch}; }}\n"
        'command() { [ "$2" != mdadm ] && builtin command "$@"; }\n'  # independent of this machine's disks
    )
    done = machine.run(f"{header}run_step {step}", *SOURCES)
    assert done.returncode == 0, done.stderr + done.stdout
    return [call for call in machine.calls()[before:] if call.startswith(("systemctl", "apt-get"))]


@pytest.mark.parametrize(
    ("gigabytes", "scratch", "wanted"),
    [(3800, "yes", 3800), (3800, "no", 0), (0, "yes", 0)],
)
def test_the_disks_of_the_type_are_taken_unless_the_partition_says_off(
    machine: Machine, gigabytes: int, scratch: str, wanted: int
) -> None:
    assert "systemctl restart gpucluster-scratch" in run(machine, gigabytes=gigabytes, scratch=scratch)
    unit = (machine.root / UNIT).read_text()
    assert f"node-program scratch.disks {wanted} ubuntu\n" in unit and "Before=slurmd.service" in unit


def test_a_second_run_restarts_nothing(machine: Machine) -> None:
    run(machine)
    assert "systemctl restart gpucluster-scratch" not in run(machine)


@pytest.mark.parametrize(("disks", "installed"), [(1, False), (2, True)])
def test_mdadm_is_installed_for_several_disks(machine: Machine, disks: int, installed: bool) -> None:
    for number in range(disks):
        device = machine.root / f"dev/nvme{number}n1"
        device.touch()
        name = f"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{number}"
        for alias in (name, f"{name}-ns-1"):
            (machine.root / "dev/disk/by-id" / alias).symlink_to(device)
    assert any(call.endswith("mdadm") for call in run(machine)) == installed


def hook(machine: Machine, name: str) -> subprocess.CompletedProcess[str]:
    environment = {"SLURM_JOB_ID": "7"}  # and no PATH
    return subprocess.run(
        [machine.root / f"opt/gpucluster/bin/{name}"], env=environment, capture_output=True, text=True
    )


def test_hooks_run_in_order_and_the_first_failure_is_reported(machine: Machine) -> None:
    run(machine, "job_hooks")
    folder = machine.root / "opt/gpucluster/prolog.d"
    for name, body in (("20-b", "exit 3"), ("10-a", ""), ("30-c", ""), ("40-text", None)):
        (folder / name).write_text(f"#!/bin/sh\necho {name} >>{machine.root}/ran\n{body}\n")
        (folder / name).chmod(0o755 if body is not None else 0o644)
    assert hook(machine, "prolog").returncode == 1
    assert (machine.root / "ran").read_text().split() == ["10-a", "20-b", "30-c"]
    assert "20-b of job 7 failed" in (machine.root / "var/log/gpucluster/power.log").read_text()


def test_a_program_that_hangs_before_a_job_drains_the_node_in_words(machine: Machine) -> None:
    run(machine, "job_hooks")
    root = machine.root
    hooks = root / "opt/gpucluster/bin/job-hooks"
    hooks.write_text(
        hooks.read_text().replace("LIMIT_S=900", "LIMIT_S=1").replace("export PATH=", f"export PATH={root}/own:")
    )
    programs = {
        "prolog.d/10-storage": "exec sleep 60",
        "prolog.d/20-b": f"touch {root}/ran",
        "epilog.d/10-a": "sleep 2",
    }
    (root / "own").mkdir()
    for name, body in (
        {f"opt/gpucluster/{name}": body for name, body in programs.items()}
        | {"own/scontrol": f'echo "$*" >{root}/asked', "own/hostname": "echo train-2"}
    ).items():
        (root / name).write_text(f"#!/bin/sh\n{body}\n")
        (root / name).chmod(0o755)
    assert hook(machine, "prolog").returncode == 1
    reason = "health: storage: 10-storage did not end within 1 s before a job"
    assert (root / "asked").read_text() == f"update nodename=train-2 state=power_down_asap reason={reason}\n"
    assert not (root / "ran").exists(), "the next program may need what this one waits for"
    assert hook(machine, "epilog").returncode == 0, "after a job, no program is stopped"


def test_without_hooks_no_job_waits(machine: Machine) -> None:
    run(machine, "job_hooks")
    assert [hook(machine, name).returncode for name in ("prolog", "epilog")] == [0, 0]


def test_the_step_installs_the_programs_of_scratch(machine: Machine) -> None:
    run(machine, "job_hooks")
    run(machine)
    (machine.root / "opt/gpucluster/bin/node-program").write_text(f'#!/bin/sh\necho "$*" >>{machine.root}/ran\n')
    (machine.root / "opt/gpucluster/bin/node-program").chmod(0o755)
    assert [hook(machine, name).returncode for name in ("prolog", "epilog")] == [0, 0]
    assert (machine.root / "ran").read_text() == "scratch.jobs begin\nscratch.jobs end\n"


def test_jobs_call_the_cache_with_the_machines_own_python(machine: Machine, tmp_path: Path) -> None:
    run(machine)
    program = tmp_path / "opt/gpucluster/bin/scratch-cache"
    (tmp_path / "bundle/gpucluster_node").symlink_to(BOOTSTRAP / "gpucluster_node")
    text = program.read_text()
    assert text.startswith("#!/usr/bin/python3 -I\n")
    done = subprocess.run(
        [program, "put"], env={"PATH": "/nowhere", "PYTHONPATH": "/nowhere"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "") and "scratch-cache: " in done.stderr
