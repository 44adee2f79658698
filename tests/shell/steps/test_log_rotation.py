"""Logs that grow are rotated, and their writers go on in the new file. logrotate itself runs where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_steps import BOOTSTRAP, OWNER, Machine, source_of

from localcloud.testing.patience import wait_for

LOGROTATE = shutil.which("logrotate") or shutil.which("logrotate", path="/usr/sbin")
REAL = pytest.mark.skipif(LOGROTATE is None, reason="this machine has no logrotate")
DAEMONS = ("slurmctld", "slurmd", "slurmdbd")

# Opens its log again at SIGUSR2, as Slurm's daemons do, and writes a line at each SIGUSR1.
WRITER = """
import signal, sys, time
def reopen(*_): global log; log = open(sys.argv[1], "a", buffering=1)
signal.signal(signal.SIGUSR2, reopen); reopen(); log.write("x" * (6 << 20) + "\\n")
signal.signal(signal.SIGUSR1, lambda *_: log.write("later\\n"))
open(sys.argv[2], "w").close()
while True: time.sleep(1)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    for name in ("log_rotation", "files"):
        text = source_of(name).read_text().replace("root:root", OWNER)
        found.step(name, re.sub(r"(?<![\w.])/(etc|var)/", rf"{tmp_path}/\1/", text))
    for folder in ("etc/logrotate.d", "var/log/slurm", "var/log/gpucluster"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/logrotate.d/slurmctld").write_text("postrotate invoke-rc.d slurmctld reconfig\n")
    found.run("step_log_rotation", "files", "log_rotation").check_returncode()
    return found


def rotate(machine: Machine, name: str, signalled: int = 0) -> None:
    """`signalled`: the process that the stand-in for systemd signals."""
    machine.command(
        "systemctl", f'[ "$*" = "kill --kill-whom=main --signal=SIGUSR2 {name}" ] && kill -USR2 {signalled}'
    )
    argv = [str(LOGROTATE), "--state", str(machine.root / "state"), str(machine.root / "etc/logrotate.d" / name)]
    done = subprocess.run(argv, env={"PATH": f"{machine.bin}:/usr/bin:/bin"}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_packages_files_are_replaced(machine: Machine) -> None:
    """Debian's slurmctld.logrotate has `nocreate`, and `invoke-rc.d slurmctld reconfig` after the rotation."""
    files = {path.name: path.read_text() for path in (machine.root / "etc/logrotate.d").iterdir()}
    assert files.keys() == {*DAEMONS, "gpucluster"}
    for daemon in DAEMONS:
        assert f"/var/log/slurm/{daemon}.log {{" in files[daemon]
        assert f"systemctl kill --kill-whom=main --signal=SIGUSR2 {daemon} " in files[daemon]
        assert "reconfig" not in files[daemon]


@pytest.mark.parametrize("role", ["head", "compute"])
def test_each_role_rotates_its_logs_after_the_packages_are_there(role: str) -> None:
    steps = re.findall(r"^run_step (\w+)", (BOOTSTRAP / f"{role}.sh.j2").read_text(), re.MULTILINE)
    assert steps.index("packages") < steps.index("log_rotation")


def written(writer: subprocess.Popen[bytes], log: Path) -> bool:
    """The first signal may interrupt `reopen` before it has taken the new file."""
    writer.send_signal(10)
    return log.read_text().startswith("later\n")


@REAL
@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_goes_on_in_the_new_file(machine: Machine, daemon: str) -> None:
    log, ready = machine.root / f"var/log/slurm/{daemon}.log", machine.root / "ready"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(log), str(ready)])
    try:
        wait_for("the writer", ready.exists, 30, 0.1)
        rotate(machine, daemon, writer.pid)
        wait_for("the new log", log.exists, 30, 0.1)
        wait_for("a line in it", lambda: written(writer, log), 30, 0.1)
    finally:
        writer.kill()
        writer.wait()
    assert (log.parent / f"{daemon}.log.1").stat().st_size > 5 << 20


@REAL
def test_our_logs_are_truncated_for_writers_that_keep_them_open(machine: Machine) -> None:
    log = machine.root / "var/log/gpucluster/power.log"
    with log.open("a", buffering=1) as writer:
        writer.write("x" * (21 << 20) + "\n")
        rotate(machine, "gpucluster")
        writer.write("later\n")
    assert log.read_text() == "later\n"
    assert (log.parent / "power.log.1.gz").exists()


@REAL
def test_a_machine_without_logs_rotates_nothing(machine: Machine) -> None:
    for name in (*DAEMONS, "gpucluster"):
        rotate(machine, name)
