"""The job's log on a file server: its lines arrive while the job runs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from gpucluster_job import job

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os, sys, threading
from gpucluster_job import log
real, called, log.EVERY_S = os.fsync, threading.Event(), 0.01
def fsync(file):
    try:
        real(file)
        print("sent", os.path.getsize(sys.argv[1]), file=sys.stderr)
    except OSError as error:
        print("not sent:", error.errno, file=sys.stderr)
        raise
    finally:
        called.set()
os.fsync = fsync
log.keep_sent()
for line, limit_s in (("first", 30), ("second", float(sys.argv[2]))):
    called.clear()
    log.say(line)
    called.wait(limit_s)
"""

TIMED = """
import sys, threading, time
from pathlib import Path
from gpucluster_job import log
log.EVERY_S, log.TIMES_S = 0.01, 0.2
times = log.keep_times(Path(sys.argv[1]), 2)
log.keep_sent()
for line in ("first", "second"):
    log.say(line)
    time.sleep(0.5)
log.say("last")
times.note()
"""

SIGNALLED = """
import signal
from gpucluster_job import log
def say(*_):
    log.say("signalled")
    signal.setitimer(signal.ITIMER_REAL, 0.0002)
signal.signal(signal.SIGALRM, say)
say()
for number in range(20_000):
    log.write(b"a rank's line\\n")
signal.signal(signal.SIGALRM, signal.SIG_IGN)
"""


def fsync_reports(log: Path, output: IO[bytes] | int, limit_s: float) -> list[str]:
    """What the program says of each fsync of its output."""
    argv = [sys.executable, "-c", PROGRAM, str(log), str(limit_s)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environment, stdout=output, stderr=subprocess.PIPE, check=True)
    return done.stderr.decode().splitlines()


def test_new_lines_are_sent_while_the_job_runs(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with log.open("wb") as file:
        assert fsync_reports(log, file, 30) == ["sent 6", "sent 13"]
    assert log.read_text() == "first\nsecond\n"


def test_the_size_of_the_log_is_kept_with_the_time_and_the_run(tmp_path: Path) -> None:
    """`logs --since`, `--until` and `--run` read it. The log has lines of an earlier run."""
    log, times = tmp_path / "log.txt", tmp_path / "log.times"
    log.write_text("earlier\n")
    before = time.time()
    with log.open("ab") as file:
        argv = [sys.executable, "-c", TIMED, str(times)]
        subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=file, check=True)
    found = [line.split() for line in times.read_text().splitlines()]
    assert [size for _, size, _ in found] == ["8", "14", "21", "26"] and {run for *_, run in found} == {"2"}
    at = [float(words[0]) for words in found]
    assert before - 0.1 <= at[0] and at == sorted(at) and at[2] - at[1] >= 0.2


def test_a_full_disk_costs_times_and_not_the_job(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", TIMED, str(tmp_path / "no such folder" / "log.times")]
    with (tmp_path / "log.txt").open("wb") as file:
        subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=file, check=True)
    assert (tmp_path / "log.txt").read_text() == "first\nsecond\nlast\n"


def test_an_output_that_is_no_file_is_tried_once(tmp_path: Path) -> None:
    assert fsync_reports(tmp_path, subprocess.PIPE, 0.2) == [f"not sent: {errno.EINVAL}"]


def test_a_signal_may_write_while_a_line_is_written(tmp_path: Path) -> None:
    """Python calls a handler between two steps of the main thread, which may hold a lock that the handler needs."""
    with (tmp_path / "log.txt").open("wb") as file:
        argv = [sys.executable, "-c", SIGNALLED]
        subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=file, check=True, timeout=60)
    lines = (tmp_path / "log.txt").read_bytes().splitlines()
    assert lines.count(b"a rank's line") == 20_000 and b"signalled" in lines


def test_the_job_sends_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the only process that writes the log: ranks write to its pipe."""
    did: list[str] = []
    monkeypatch.setattr(job, "keep_sent", lambda: did.append("keep_sent"))
    monkeypatch.setattr(job, "Job", lambda *_: SimpleNamespace(run=lambda: did.append("run") or 0))
    assert job.main(["job", "srun", "--", "python"]) == 0
    assert did == ["keep_sent", "run"]
