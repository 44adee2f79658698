"""What dumps of faulthandler, as `hang_timeout` sets it up, tell: where ranks stand, and why C++ ended the program."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from gpucluster_job.hang import Stacks
from gpucluster_job.ranks import stacks
from gpucluster_job.ranks.last_words import last_words, reason
from gpucluster_job.ranks.program import Lines

WHAT = "  what():  [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)"
DUMP = ["Fatal Python error: Aborted", ""]
DUMP += [
    line
    for number in range(40)
    for line in (
        f"Thread 0x00007f5a3b7d{number:04x} (most recent call first):",
        '  File "/usr/lib/python3.12/threading.py", line 359 in wait',
        '  File "/w/train.py", line 12 in load',
        "",
    )
]
DUMP += ["Current thread 0x00007f5a3b7d1740 [python] (most recent call first):", '  File "/w/train.py", line 6 in step']
# Lib/test/test_faulthandler.py of CPython 3.13, and of 3.14 (python/cpython#132016)
THREADS = {
    "3.13": "Current thread 0x00007f5a3b7d1740 (most recent call first):",
    "3.14": "Current thread 0x00007f5a3b7d1740 [python] (most recent call first):",
}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucluster_job.ranks.program._write", lambda data: None)


def kept(*lines: str) -> list[str]:
    found = Lines("[1 train-1] ")
    found.take("".join(f"{line}\n" for line in lines).encode())
    return [line.decode() for line in found.last]


def test_a_dump_of_all_threads_does_not_hide_why_the_program_was_aborted() -> None:
    lines = kept("step 1", "terminate called after throwing an instance of 'c10::DistBackendError'", WHAT, *DUMP)
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)"
    assert reason(134, lines) == f"killed by SIGABRT, last line: {said}"


def test_a_fault_without_a_reason_of_its_own_is_named() -> None:
    assert last_words(kept("step 1", *DUMP)) == "Fatal Python error: Aborted"
    assert last_words(kept(WHAT, "step 2", "Fatal Python error: Segmentation fault", *DUMP[1:])).endswith("fault")


def test_lines_of_a_traceback_are_kept() -> None:
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 6, in step', "ValueError: no", "bye"]
    assert kept(*lines) == lines
    assert last_words(kept(*lines)) == "ValueError: no"


@pytest.mark.parametrize("thread", THREADS.values(), ids=THREADS.keys())
def test_the_current_thread_is_found(thread: str) -> None:
    heard = Stacks()
    dump = ["Fatal Python error: Aborted", "", thread, '  File "/w/train.py", line 6 in all_reduce', ""]
    for line in [*dump, "Current thread's C stack trace (most recent call first):"]:
        heard.hear(f"[0 train-1] {line}".encode())
    assert heard.words() == "rank 0 in all_reduce (train.py:6)"


@pytest.mark.parametrize(
    ("started_at", "slept_s"),
    [(100.0, 5.0), (103.5, 1.5), (107.0, 0.0), (60.0, stacks.LONGEST_S)],
    ids=["at once", "later", "too late", "on a node whose clock is wrong"],
)
def test_nodes_whose_steps_start_at_different_moments_signal_their_ranks_at_the_same(
    monkeypatch: pytest.MonkeyPatch, started_at: float, slept_s: float
) -> None:
    """The first rank that ends makes srun end the others, which then print nothing."""
    clock = [started_at]

    def programs(package: str) -> Iterator[int]:
        assert clock[0] == started_at + slept_s
        yield from ()

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", "/job")
    monkeypatch.setattr(stacks, "time", SimpleNamespace(time=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr(stacks.signals, "programs", programs)
    assert stacks.main(["stacks", "105.0"]) == 0
