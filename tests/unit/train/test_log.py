"""gpucluster_train.log, which training programs call in a loop: in a process of its own, as the job's ranks are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localcloud.testing import patience

ROOT = Path(__file__).parents[3]


def run(folder: Path | None, program: str, rank: str = "0", python: str = sys.executable) -> str:
    """What the program says on stderr."""
    job = {"GPUCLUSTER_METRICS": str(folder), "RANK": rank} if folder else {}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | job
    argv = [python, "-c", "from gpucluster_train import log\n" + program]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def lines(folder: Path, rank: int = 0) -> list[tuple[int | None, dict]]:
    found = [json.loads(line) for line in (folder / f"{rank}.jsonl").read_text().splitlines()]
    assert all(abs(line["time_s"] - time.time()) < 600 for line in found)
    return [(line["step"], line["values"]) for line in found]


PYTHONS = [sys.executable, *map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python"))]


@pytest.mark.parametrize("python", PYTHONS, ids=range(len(PYTHONS)))
def test_each_call_is_a_line_in_the_file_of_the_rank(tmp_path: Path, python: str) -> None:
    program = "log(step=3, loss=0.5, accuracy=1)\nlog(loss=0.25, **{'train/top-5': 7})\nlog(step=4)"
    assert run(tmp_path, program, rank="2", python=python) == ""
    assert lines(tmp_path, 2) == [(3, {"loss": 0.5, "accuracy": 1.0}), (None, {"loss": 0.25, "train/top-5": 7.0})]


def test_outside_a_job_it_does_nothing(tmp_path: Path) -> None:
    assert run(None, "log(step=1, loss=1)\nimport threading; assert threading.active_count() == 1") == ""


def test_a_value_that_json_cannot_hold_is_null(tmp_path: Path) -> None:
    run(tmp_path, "log(step=1, loss=float('nan'), top=float('-inf'), other=1)")
    assert lines(tmp_path) == [(1, {"loss": None, "top": None, "other": 1.0})]


def test_what_is_no_number_is_left_out_and_said_once(tmp_path: Path) -> None:
    program = """
class Hostile:
    def __float__(self): raise RuntimeError('no')
for step in range(3):
    log(step=step, loss='abc', other=None, hostile=Hostile(), good=step, big=10**400)
log(step='x', good=9)
log(step=5.0, good=10)
log()
"""
    said = run(tmp_path, program).splitlines()
    assert [line.split()[2] for line in said] == ["loss", "other", "hostile", "big", "step"]
    assert said[0] == (
        "warning: gpucluster_train.log: loss must be a number, got str: could not convert string to float: 'abc'"
    )
    assert lines(tmp_path)[-3:] == [(2, {"good": 2.0}), (None, {"good": 9.0}), (5, {"good": 10.0})]


def test_lines_arrive_while_the_program_runs(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "GPUCLUSTER_METRICS": str(tmp_path)}
    argv = [sys.executable, "-c", "from gpucluster_train import log\nlog(step=1, loss=2)\ninput()"]
    with subprocess.Popen(argv, env=environment | {"RANK": "0"}, stdin=subprocess.PIPE) as process:
        patience.wait_for("the line", lambda: (tmp_path / "0.jsonl").exists(), 20.0, 0.05)
        assert lines(tmp_path) == [(1, {"loss": 2.0})]
        assert process.poll() is None


def test_neither_training_nor_its_end_waits_for_the_file_server(tmp_path: Path) -> None:
    """Opening a pipe that nobody reads blocks, as a file server does that is away."""
    os.mkfifo(tmp_path / "0.jsonl")
    program = """
import sys, time
module = sys.modules['gpucluster_train.log']
module.AT_EXIT_S = 0.5
log(step=0, loss=0)
time.sleep(1.5)
before = time.process_time()
for step in range(100_000):
    log(step=step, loss=0.5)
assert time.process_time() - before < 10
assert len(module._file()._lines) == module.MOST_LINES
"""
    run(tmp_path, program)


def test_a_full_file_system_costs_the_lines(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").symlink_to("/dev/full")
    assert run(tmp_path, "log(loss=1)").endswith("0.jsonl: No space left on device\n")


@pytest.mark.parametrize(("rank", "kept"), [("0", 1000), ("3", 60)])
def test_other_ranks_than_0_do_not_fill_the_file_system(tmp_path: Path, rank: str, kept: int) -> None:
    """10 of 10, 10 of 20, 10 of 40, and so on. Names that take turns are counted apart."""
    program = """
import sys
sys.modules["gpucluster_train.log"].ALL_OF_OTHERS = 10
for step in range(1000):
    log(step=step, loss=1)
    log(step=step, rate=2)
"""
    run(tmp_path, program, rank=rank)
    found = lines(tmp_path, int(rank))
    losses = [step for step, values in found if values == {"loss": 1.0}]
    rates = [step for step, values in found if values == {"rate": 2.0}]
    assert losses == rates and kept <= len(losses) <= kept + 10
    assert losses[:10] == list(range(10)) and losses[-1] >= 900


def test_without_a_thread_the_program_goes_on(tmp_path: Path) -> None:
    """A user's limit of processes is reached; or, since Python 3.12, the interpreter ends."""
    program = """
import threading
def start(self): raise RuntimeError("can't start new thread")
threading.Thread.start = start
log(loss=1)
log(loss=2)
"""
    assert run(tmp_path, program).count("values are left out: can't start new thread") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_a_rank_forks_has_a_thread_of_its_own(tmp_path: Path) -> None:
    program = """
import os
log(step=0, loss=0)
if not (pid := os.fork()):
    log(step=1, loss=1)
    raise SystemExit
os.waitpid(pid, 0)
"""
    run(tmp_path, program)
    assert sorted(lines(tmp_path))[-1] == (1, {"loss": 1.0})
