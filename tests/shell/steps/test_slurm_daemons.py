"""Slurm's daemons: versions that cannot work, a first start that fails, and a reconfiguration while jobs start."""

from __future__ import annotations

import subprocess

import pytest
from test_steps import REPORT, Machine, source_of

UBUNTU = {"22.04": "slurm-wlm 21.08.5", "24.04": "slurm-wlm 23.11.4"}
"""What `slurmd -V` prints there: the package's name and version."""


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def packages(machine: Machine, role: str, said: str, release: str = "Ubuntu 22.04.5 LTS") -> str:
    for command in ("munged", "nft", "mount.nfs4", "scontrol", "mpirun", "exportfs", "virtualenv", "mdadm", "python3"):
        machine.command(command)
    machine.command("ldconfig", 'echo "libquadmath.so.0 (libc6,x86-64) => /usr/lib/libquadmath.so.0"')
    for daemon in ("slurmd", "slurmctld"):
        machine.command(daemon, f'[ "$*" = -V ] && echo "{said}"')
    (machine.root / "os-release").write_text(f'PRETTY_NAME="{release}"\n')
    header = f'OS_RELEASE="$ROOT/os-release" ROLE={role} ACCOUNTING=off'
    return machine.run(f"{header}\n{REPORT}\nrun_step packages", "runner", "apt", "packages").stdout


@pytest.mark.parametrize("role", ["head", "compute", "image"])
def test_an_image_with_an_old_slurm_is_named(machine: Machine, role: str) -> None:
    """Its slurm.conf has no MaxBatchRequeue, its cgroup plug-ins no cgroup/v2 (Slurm's slurm-21-08-5-1)."""
    said = packages(machine, role, UBUNTU["22.04"])
    (reported,) = [line for line in said.splitlines() if line.startswith("REPORTED")]
    assert (
        "this image (Ubuntu 22.04.5 LTS) has Slurm 21.08.5, and 23.11 is needed: choose an image of Ubuntu 24.04"
        in (reported)
    )


@pytest.mark.parametrize("said", [UBUNTU["24.04"], "slurm-wlm 24.11.5", "slurm 25.05.0-0rc1"])
@pytest.mark.parametrize("role", ["head", "compute"])
def test_newer_slurms_are_taken(machine: Machine, role: str, said: str) -> None:
    assert "REPORTED" not in packages(machine, role, said)


def started(machine: Machine, restart: str, *, active_after: int) -> subprocess.CompletedProcess[str]:
    """A unit whose first start fails. `restart`: its Restart=; systemd has started it again after so many looks."""
    machine.command(
        "systemctl",
        "case $* in\n"
        'restart*) [ -e "$ROOT/up" ] ;;\n'
        f'"show --property=Restart --value unit") echo {restart} ;;\n'
        f'is-active*) [ "$(grep -c "systemctl is-active" "$ROOT/calls")" -gt {active_after} ] ;;\n'
        "esac",
    )
    machine.command("sleep")
    machine.command("journalctl", "echo cgroup: scope not ready")
    machine.step("x", "step_x() {\n    service_up unit /dev/null\n}")
    return machine.run(f"{REPORT}\nrun_step x", "runner", "files", "services", "x")


def test_a_daemon_that_systemd_starts_again_is_not_given_up(machine: Machine) -> None:
    """slurmd of 23.11 may lose a race for its scope (SchedMD's bug 19157, fixed in 24.05)."""
    done = started(machine, "always", active_after=3)
    assert done.returncode == 0 and "REPORTED" not in done.stdout, done.stdout


@pytest.mark.parametrize(("restart", "waits"), [("always", 30), ("no", 0), ("", 0)])
def test_a_daemon_that_never_starts_is_reported(machine: Machine, restart: str, waits: int) -> None:
    done = started(machine, restart, active_after=99)
    assert "REPORTED step=x line=2: unit does not start: cgroup: scope not ready" in done.stdout
    assert machine.calls().count("sleep 1") == waits


STARTING = {
    "a job that waits for its nodes": "CONFIGURING 3:20",
    "a job whose nodes start": "CONFIGURING 0:00",
    "a job of the last minute": "RUNNING 0:59",
}
QUIET = {
    "no job": "",
    "older jobs": "RUNNING 1:00\nRUNNING 1-00:00:03\nRUNNING 10:00:09\nPENDING 0:00\nCOMPLETING 0:04",
}


def reconfigured(machine: Machine, version: str, queue: str, *, looks: int) -> tuple[int, str]:
    """(How often squeue was asked before, what was said.) `looks`: after so many the queue is empty."""
    machine.command("slurmctld", f'echo "slurm-wlm {version}"')
    machine.command("scontrol", '[ "$1" != ping ] || echo "Slurmctld(primary) at head is UP"')
    (machine.root / "queue").write_text(queue)
    machine.command("squeue", f'[ "$(grep -c squeue "$ROOT/calls")" -gt {looks} ] || cat "$ROOT/queue"')
    machine.command("sleep")
    done = machine.run("reconfigure", "runner", "controller")
    assert done.returncode == 0, done.stderr
    calls = machine.calls()
    assert calls[-1] == "scontrol reconfigure"
    return sum(call.startswith("squeue") for call in calls), done.stdout


@pytest.mark.parametrize("queue", STARTING.values(), ids=STARTING)
def test_a_reconfiguration_waits_until_no_job_starts(machine: Machine, queue: str) -> None:
    """Slurm's commits a914847a5b (23.11.8) and efc6fcfb0d (23.11.7). The form is squeue's (print.c: _print_secs)."""
    assert reconfigured(machine, "23.11.4", queue, looks=2) == (3, "")


@pytest.mark.parametrize("queue", QUIET.values(), ids=QUIET)
def test_jobs_that_have_started_delay_nothing(machine: Machine, queue: str) -> None:
    assert reconfigured(machine, "23.11.4", queue, looks=99) == (1, "")


def test_a_queue_that_never_rests_does_not_stop_an_update(machine: Machine) -> None:
    looks, said = reconfigured(machine, "23.11.7", "RUNNING 0:10", looks=999)
    assert looks == 60 and "jobs still start after five minutes" in said


@pytest.mark.parametrize("version", ["23.11.8", "23.11.10", "24.11.5"])
def test_a_slurm_without_these_defects_waits_for_no_job(machine: Machine, version: str) -> None:
    assert reconfigured(machine, version, "RUNNING 0:10", looks=99) == (0, "")


@pytest.mark.parametrize(
    ("scontrol", "code", "said"),
    [
        ("echo head", 0, ""),
        # what scontrol of Slurm 23.11.4 prints
        (
            "echo 'scontrol: error: _parse_next_key: Parsing error at unrecognized key: Foo' >&2\n"
            "echo 'scontrol: fatal: Unable to process configuration file' >&2; exit 1",
            1,
            "Slurm does not take the new slurm.conf, and the old one stays: scontrol: error: _parse_next_key: Parsing "
            "error at unrecognized key: Foo; scontrol: fatal: Unable to process configuration file",
        ),
    ],
)
def test_a_slurm_conf_that_slurm_refuses_replaces_none(machine: Machine, scontrol: str, code: int, said: str) -> None:
    folder = machine.root / "etc/slurm"
    folder.mkdir(parents=True)
    (machine.root / "bundle/slurm").mkdir()
    (machine.root / "bundle/slurm/slurm.conf").write_text("KillWait=60\n")
    machine.step("slurm_conf", source_of("slurm_conf").read_text().replace("/etc/slurm", str(folder)))
    machine.command("scontrol", f'cp "$SLURM_CONF" "$ROOT/seen"\n{scontrol}')
    done = machine.run("image_file() { :; }; step_slurm_conf", "runner", "slurm_conf")
    assert (done.returncode, done.stderr.strip()) == (code, said)
    assert (machine.root / "seen").read_text() == "KillWait=60\n" and list(folder.iterdir()) == []
