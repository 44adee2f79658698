"""Each cause is found in what programs and Slurm really print, and not in what only looks like it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from gpucluster.following.jobs import Ending
from gpucluster.following.known import find
from gpucluster.following.known.cause import Found, OfTraining, all_of, first
from gpucluster.following.known.table import BY_ID, CAUSES
from gpucluster_job.ending import STOPPED_BY
from gpucluster_job.ranks.last_words import reason

DATA = Path(__file__).parents[2] / "data/why"
STATES = ("pending", "refused", "node", "hung", "dead", "slow", "training")
ROWS: dict[str, dict[str, Any]] = {
    name: row for state in STATES for name, row in tomllib.loads((DATA / f"{state}.toml").read_text()).items()
}
READ_BY_CODE = {cause.id for cause in CAUSES if cause.place in ("samples", "result")}
"""test_slowness.py has these."""
PLACES = {"pending": "job's reason", "refused": "sbatch", "node": "node's reason"}


def test_each_row_of_the_table_has_a_recorded_text() -> None:
    assert len(BY_ID) == len(CAUSES)
    assert sorted(ROWS) == sorted(set(BY_ID) - READ_BY_CODE)
    assert all(row["source"] and row["text"] != row["near"] for row in ROWS.values())


def found(name: str, text: str, row: dict[str, Any]) -> list[Found]:
    """As `why` finds it: a rank's error as the job's own runtime records it."""
    cause, lines = BY_ID[name], text.strip("\n").splitlines()
    if cause.place == "NCCL":
        return [*all_of(CAUSES, "NCCL", text)]
    if cause.place in (*PLACES.values(), *get_args(OfTraining)):
        return [each for each in [first(CAUSES, cause.place, text)] if each]
    if row.get("launcher"):
        return find.dead(Ending("FAILED", {"exit_code": 1, "reason": "srun exited with code 1: x"}), lines)
    if cause.state == "slow":
        return [*all_of(CAUSES, "rank", text)]
    why = reason(row.get("code", 1), lines, short=row.get("short", False), limit=row.get("limit", ""))
    return find.ending_error(why, lines)


@pytest.mark.parametrize("name", ROWS)
def test_the_recorded_text_proves_the_cause(name: str) -> None:
    ids = [each.cause.id for each in found(name, ROWS[name]["text"], ROWS[name])]
    assert name in ids if BY_ID[name].state == "slow" else ids == [name]


@pytest.mark.parametrize("name", ROWS)
def test_a_text_that_is_near_does_not(name: str) -> None:
    row = {key: value for key, value in ROWS[name].items() if key not in ("short", "limit", "code")}
    assert name not in [each.cause.id for each in found(name, row["near"], row)]


@pytest.mark.parametrize("name", ROWS)
def test_the_words_are_whole(name: str) -> None:
    for each in found(name, ROWS[name]["text"], ROWS[name]):
        assert "{" not in each.words and "?" not in each.words
        assert not each.words.endswith(".") and len(each.evidence) <= 300


def test_a_users_braces_are_text() -> None:
    (each,) = find.ending_error("ModuleNotFoundError: No module named '{job}{0}'")
    assert each.words == "its environment has no package {job}{0}"


def test_nodes_with_the_same_cause_are_named_together() -> None:
    reasons = {"train-1": "Not responding", "train-2": "Kill task failed", "train-3": "Not responding", "train-4": "x"}
    said = [each.sentence for each in find.of_nodes(reasons)]
    assert [each.split(": ")[0] for each in said] == ["train-1, train-3", "train-2"]


def failed(reason: str, **more: Any) -> Ending:
    return Ending("FAILED", {"exit_code": 1, "failed_rank": 1, "failed_node": "n-2", "reason": reason, **more})


def ids(reason: str, *lines: str) -> list[str]:
    return [each.cause.id for each in find.dead(failed(reason), [f"[1 n-2] {line}" for line in lines])]


WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9141, OpType=_ALLGATHER_BASE, NumelIn=19008)"
OUT_OF_GPU = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 93.75 GiB"
NO_DUMP_FLAG = 'Failed to check the "should dump" flag on TCPStore, with error: failed to recv, got 0 bytes'
MISREAD: dict[str, tuple[list[str], list[str], str]] = {
    # The rank that reports has not failed by itself: NCCL's first error is of a rank that another one's crash hit.
    "https://github.com/NVIDIA/nccl/issues/795": (
        ["peer-died"],
        ["misc/socket.cc:518 NCCL WARN Net : Call to recv from 10.200.84.247<58355> failed : Broken pipe"],
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, internal error, NCCL version 2.14.3",
    ),
    # Out of memory in the log after a timeout: the timeout came first, and this error did not end the rank.
    "https://github.com/NVIDIA/nccl/issues/1284": (
        ["nccl-timeout"], [OUT_OF_GPU.replace("93.75 GiB", "more than 1EB memory"), WATCHDOG],
        f"killed by SIGABRT, last line: {WATCHDOG}",
    ),
    # Every rank reports the timeout; none of them is the cause.
    "https://github.com/sgl-project/sglang/issues/1693": (
        ["nccl-timeout"], [f"[Rank 5] {WATCHDOG}"], f"killed by SIGABRT, last line: {WATCHDOG}",
    ),
    # The program survives the error, says so, and fails later for another reason.
    "https://github.com/facebookresearch/metaseq/pull/314": (
        [], [f"| WARNING | metaseq.trainer | OOM: Ran out of memory with exception: {OUT_OF_GPU}", "KeyError: 'lr'"],
        "KeyError: 'lr'",
    ),
    "https://github.com/Lightning-AI/pytorch-lightning/issues/8028 (the tuner's own attempts)": (
        [], [OUT_OF_GPU, "Batch size 4096 failed, trying batch size 2048", "ValueError: no samples"],
        "ValueError: no samples",
    ),
    # The end of another rank, which may even have ended well.
    "https://github.com/pytorch/pytorch/issues/75512": (
        ["peer-died"], [],
        "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [18.25.6.30]:28048",
    ),
    # Warnings of other ranks about the store come before and after the assertion that is the cause.
    "https://github.com/Dere-Wah/AI-MarioKart64/issues/3": (
        [], [f"[rank3]:[W625 23:35:35 ProcessGroupNCCL.cpp:1662] {NO_DUMP_FLAG}", "AssertionError"], "AssertionError",
    ),
    # The last error says that the cause is above.
    "https://github.com/vllm-project/vllm/issues/26898": (
        [], ["INFO [pynccl.py:103] vLLM is using nccl==2.27.3"],
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ),
    # /dev/shm is full on this rank, whose other lines complain about its peers.
    "https://github.com/NVIDIA/nccl-tests/issues/166": (
        ["shm-nccl"],
        ["misc/shmutils.cc:71 NCCL WARN Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes",
         "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu004<55693>"],
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1291, unhandled system error, NCCL version 2.18.3",
    ),
    # 137 alone proves nothing.
    "https://github.com/ROCm/spur/issues/308": (["killed"], ["step 7"], "killed by SIGKILL, last line: step 7"),
    # The kernel's count does.
    "https://github.com/cBio/cbio-cluster/issues/232": (
        ["memory"], ["step 7"],
        "out of memory: the kernel killed it, last line: RuntimeError: Connection closed by peer",
    ),
    # Bus error of a worker, not of the rank.
    "https://github.com/mittagessen/kraken/issues/699": (
        ["shm-torch"], [],
        "RuntimeError: DataLoader worker (pid 270071) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("source", MISREAD)
def test_nobody_is_blamed_wrongly(source: str) -> None:
    expected, lines, why = MISREAD[source]
    assert ids(why, *lines) == expected


def test_other_ranks_lines_prove_nothing() -> None:
    lines = [f"[0 n-1] {OUT_OF_GPU}", "[launcher] x"]
    assert find.dead(failed("it printed nothing"), lines) == []
    nobody = Ending("FAILED", {"exit_code": 1, "reason": "torchrun exited with code 1: x"})
    assert find.dead(nobody, lines) == []


def test_a_job_whose_step_was_short_of_memory_and_that_completed_has_no_cause() -> None:
    """https://github.com/NBISweden/Earth-Biogenome-Project-pilot/issues/81: Slurm counts kills of any process."""
    line = "slurmstepd: error: Detected 1959 oom_kill events in StepId=45226719.batch. Some of the step tasks have been"
    assert Ending("COMPLETED", {"exit_code": 0}).failed is False
    (each,) = find.dead(Ending("FAILED", {"exit_code": 1, "reason": "srun exited with code 1: x"}), [line])
    assert each.cause.id == "memory"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (STOPPED_BY["TIME LIMIT"], "time-limit"),
        (STOPPED_BY["NODE FAILURE"], "lost-node"),
        ("lost the node train-2", "lost-node"),
        (STOPPED_BY["PREEMPTION"], "preempted"),
        ("torchrun exited with code 1: rank 0 on train-1: Signal 9 (SIGKILL) received by PID 14750", "killed"),
        ("srun exited with code 137: srun: error: holy8a26601: task 0: Out Of Memory", "memory"),
        ("cancelled", ""),
    ],
)
def test_what_the_jobs_own_runtime_says_without_a_rank(said: str, cause: str) -> None:
    """gpucluster_job/ending.py; records: torchrun/childfailed-sigkill.txt, slurm/srun-and-slurmstepd-errors.txt."""
    found = find.dead(Ending("FAILED", {"exit_code": 1, "reason": said}), ["[0 n] step 1"])
    assert [each.cause.id for each in found] == [cause] * bool(cause)


def lines_of_a_hostile_user() -> Iterator[str]:
    yield "x" * 100_000
    yield "DataLoader worker (pid" * 5_000
    yield "via SHM/ Channel 0 : 0[0] -> " * 4_000
    yield "ModuleNotFoundError: No module named '" + "\x1b[31m<script>" * 1_000
    yield "unable to allocate shared memory(shm) for file <torch_" + ">" * 50_000


@pytest.mark.parametrize("place", ["rank", "launcher", "NCCL", "sbatch", "job's reason", "node's reason"])
def test_no_text_makes_the_search_slow(place: Any) -> None:
    import time

    began = time.process_time()
    for text in lines_of_a_hostile_user():
        list(all_of(CAUSES, place, text))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", [name for name in ROWS if BY_ID[name].state == "refused"])
def test_a_refusal_says_what_to_do(name: str) -> None:
    said = find.advice(ROWS[name]["text"])
    assert said and said.endswith(BY_ID[name].advice) and find.advice("lua: no jobs on Fridays") is None
