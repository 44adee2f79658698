"""The step that gives nodes the program of a job's file system in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_steps import BOOTSTRAP, Machine, source_of

PROGRAMS = BOOTSTRAP / "programs"
PLACES = ("/opt/gpucluster", "/etc/sudoers.d")


def run(machine: Machine, beegfs_role: str) -> str:
    """What is there afterwards, file after file."""
    machine.step("node_program", "node_program() { :; }")
    for name in ("files", "job_ram"):
        machine.step(name, machine.below(source_of(name).read_text(), *PLACES))
    header = f"JOB_USER=ubuntu BEEGFS_ROLE={beegfs_role} ROLE=compute\nthis_partition() {{ :; }}"
    done = machine.run(f"{header}\nstep_job_ram", "files", "node_program", "job_ram")
    assert done.returncode == 0, done.stderr
    files = sorted(path for place in PLACES for path in (machine.root / place.strip("/")).rglob("*") if path.is_file())
    return "".join(
        f"{path.relative_to(machine.root)} {path.stat().st_mode & 0o777:o}\n{path.read_text()}" for path in files
    ).replace(str(machine.root), "")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.programs(*PLACES)
    return machine


def test_a_node_gets_program_permission_and_epilog(machine: Machine) -> None:
    assert run(machine, "job") == (
        "etc/sudoers.d/gpucluster-ram 440\n"
        "ubuntu ALL=(root) NOPASSWD: /opt/gpucluster/bin/job-ram serve *, /opt/gpucluster/bin/job-ram mount\n"
        f"opt/gpucluster/bin/job-ram 755\n{(PROGRAMS / 'bin/job-ram').read_text()}"
        f"opt/gpucluster/epilog.d/50-job-ram 755\n{(PROGRAMS / 'epilog.d/50-job-ram').read_text()}"
    )


@pytest.mark.parametrize("beegfs_role", ["none", "client", "server"])
def test_nodes_with_another_beegfs_role_get_nothing(machine: Machine, beegfs_role: str) -> None:
    assert run(machine, beegfs_role) == ""


def test_a_second_run_changes_nothing(machine: Machine) -> None:
    first = run(machine, "job")
    program = machine.root / "opt/gpucluster/bin/job-ram"
    before = program.stat().st_mtime_ns
    assert run(machine, "job") == first
    assert program.stat().st_mtime_ns == before
