"""One run at a time changes a cluster, also if a run was killed and the program that it started runs on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpucluster.cluster.turn import Turn
from localcloud.testing.patience import wait_for

KILLED = """
import subprocess, sys, time
from pathlib import Path
from gpucluster.cluster.turn import Turn
turn = Turn(Path(sys.argv[1]), "A")
with turn.taken("up", print):
    child = subprocess.Popen(["sleep", "600"], pass_fds=turn.inherited, start_new_session=True)
    turn.says(f"`gpucluster up` with the CDK command line (process {child.pid})")
    print(child.pid, flush=True)
    time.sleep(600)
"""


def test_a_second_run_waits_and_says_for_whom(tmp_path: Path) -> None:
    said, order = list[str](), list[str]()
    first, second = Turn(tmp_path / "a", "A"), Turn(tmp_path / "a", "A")
    assert first.holder() == ""

    def run() -> None:
        with second.taken("down", said.append):
            order.append("second")

    with first.taken("up", said.append):
        waiting = threading.Thread(target=run)
        waiting.start()
        wait_for("the second run waits", lambda: said, 30, 0.1)
        assert Turn(tmp_path / "a", "A").holder() == f"`gpucluster up` (process {os.getpid()})"
        assert Turn(tmp_path / "a", "Other").holder() == ""
        order.append("first")
    waiting.join(timeout=30)
    assert order == ["first", "second"] and first.holder() == ""
    assert len(said) == 1 and said[0].startswith("`gpucluster up` (process ") and "waiting until it ends" in said[0]


def test_a_folder_without_locks_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS without lockd, Lustre without `-o flock`: toil issue 4846, renku-python issue 3669."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("gpucluster.cluster.turn.fcntl.flock", flock)
    said = list[str]()
    with Turn(tmp_path, "A").taken("up", said.append):
        assert Turn(tmp_path, "A").holder() == ""
    assert len(said) == 1 and "No locks available" in said[0]


def test_the_lock_of_a_killed_run_is_held_by_the_program_that_it_started(tmp_path: Path) -> None:
    said = list[str]()
    argv = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        child = int(killed.stdout.readline())
        killed.send_signal(signal.SIGKILL)

    def tell(line: str) -> None:
        said.append(line)
        subprocess.run(["kill", str(child)], check=True)

    began = time.monotonic()
    with Turn(tmp_path, "A").taken("up", tell):
        who = f"`gpucluster up` with the CDK command line (process {child})"
        assert said == [f"{who} is changing this cluster: waiting until it ends"]
    assert time.monotonic() - began < 60
