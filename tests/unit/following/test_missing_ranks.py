"""Which rank did not come, when others waited for it."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucluster_job import failures, hang
from gpucluster_job.failures import Failure
from gpucluster_job.hangs import flight, standing, watchdog
from gpucluster_job.hangs.missing import Missing, by_counts
from localcloud.testing.recorded import record

FLIGHT = Path(__file__).parents[2] / "data/why/flight"
GLOO = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] "
    "Timed out waiting 8000ms for recv operation to complete"
)
TORCH = "/opt/venv/lib/python3.12/site-packages/torch/distributed"
WAITS = [
    (f"{TORCH}/distributed_c10d.py", "2806", "all_reduce"),
    (f"{TORCH}/c10d_logger.py", "83", "wrapper"),
    ("/w/train.py", "6", "step"),
]
LOADS = [("/usr/lib/python3.12/ssl.py", "9", "read"), ("/w/data.py", "40", "load"), ("/w/train.py", "5", "step")]


def test_the_flight_recorder_of_gloo_names_the_rank_that_did_not_come() -> None:
    assert flight.missing(str(FLIGHT)) == Missing(["2"], "all_reduce number 4", ["0", "1"])


def test_a_group_without_the_rank_does_not_blame_it(tmp_path: Path) -> None:
    """The second group of the recording has ranks 0 and 1 only."""
    for name in ("rank-0", "rank-1"):
        (tmp_path / name).write_bytes((FLIGHT / name).read_bytes())
    assert flight.missing(str(tmp_path)) is None


def test_a_dump_is_data_and_may_be_broken(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    (tmp_path / "rank-0").write_bytes((FLIGHT / "rank-0").read_bytes())
    (tmp_path / "rank-1").write_bytes(pickle.dumps({"entries": [Evil()]}))
    (tmp_path / "rank-2").write_bytes((FLIGHT / "rank-2").read_bytes()[:200])
    (tmp_path / "rank-3.pipe").touch()
    assert flight.missing(str(tmp_path)) is None and not (tmp_path / "ran").exists()
    assert flight.missing(str(tmp_path / "none")) is None


def test_each_dump_is_read_once_and_not_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """512 ranks leave 3 GB, which take minutes, while the job ends on all its nodes."""
    read: list[str] = []

    def slow(path: Path) -> Any:
        read.append(path.name)
        clock.now += 4.0
        return [{"process_group": ("0", ""), "collective_seq_id": 2 - (path.name == "rank-3"), "profiling_name": "x"}]

    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(flight, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(flight, "read", slow)
    for rank in range(5):
        (tmp_path / f"rank-{rank}").touch()
    assert flight.missing(str(tmp_path)) is None and clock.now == 12.0
    found = Missing(["3"], "x number 2", ["0", "1", "2", "4"])
    assert [flight.missing(str(tmp_path)) for _ in range(3)] == [found] * 3
    assert read == [f"rank-{rank}" for rank in range(5)]


def test_the_jobs_own_place_for_dumps_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert flight.variables("/j")["TORCH_FR_DUMP_TEMP_FILE"] == "/j/rank-"
    monkeypatch.setenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/mine")
    assert flight.variables("/j") == {}


def watched(*lines: str) -> Missing | None:
    heard = watchdog.Watchdog()
    for line in lines:
        assert watchdog.MARK in line.encode()
        heard.hear(line.encode())
    return heard.missing()


DUMPED = (
    "[rank{0}]:[E703 21:51:54.11 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Received a dump "
    "signal due to a collective timeout from  rank 7 and we will try our best to dump the debug info. Last enqueued "
    "NCCL work: {1}, last completed NCCL work: {2}.This is most likely caused by incorrect usages"
)
"""As a log of torch 2.8 has it: getNCCLWatchdogTimeoutErrorMsg in ProcessGroupNCCL.cpp."""


def test_nccls_watchdog_names_the_rank_that_is_behind() -> None:
    lines = [f"[{rank} train-1] {DUMPED.format(rank, 40 - (rank == 2), 39)}" for rank in range(4)]
    assert watched(*lines) == Missing(["2"], "collective number 40", ["0", "1", "3"])
    assert watched(*(f"[{rank} n] {DUMPED.format(rank, 40, 39)}" for rank in range(4))) is None
    assert watched(lines[0]) is None, "one rank alone proves nothing"


def test_the_watchdogs_words_of_torch_2_5() -> None:
    (line,) = (each for each in record("torchrun/nccl-watchdog-timeout.txt").splitlines() if "detected by" in each)
    other = line.replace("last enqueued NCCL work: 6463", "last enqueued NCCL work: 6462")
    assert watched(f"[1 n] {line}", f"[0 n] {other}") == Missing(["0"], "collective number 6463", ["1"])


def test_groups_count_apart() -> None:
    assert by_counts({"0": {"0": 9, "1": 9}, "1": {"0": 2}, "2": {"1": 7}}) is None


def test_a_rank_that_stands_elsewhere_did_not_come() -> None:
    assert standing.missing({"0": WAITS, "1": WAITS, "2": LOADS}) == Missing(["2"], "all_reduce", ["0", "1"])
    assert standing.missing({"0": WAITS, "1": WAITS}) is None
    assert standing.missing({"0": LOADS, "1": LOADS}) is None
    assert standing.missing({"1": LOADS}, gave_up=["0"]) == Missing(["1"], "the collective", ["0"])


@pytest.mark.parametrize("file", ["autograd/graph.py", "cuda/streams.py", "nn/parallel/distributed.py"])
def test_a_rank_that_may_wait_too_is_not_blamed(file: str) -> None:
    unsure = [(f"/x/site-packages/torch/{file}", "1", "f"), ("/w/train.py", "7", "step")]
    assert standing.missing({"0": WAITS, "1": unsure}) is None


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCLUSTER_JOB_DIR", str(tmp_path))


class Job:
    def __init__(self, folder: Path, limit_s: int = 0) -> None:
        self.commands: list[list[str]] = []
        settings = SimpleNamespace(hang_timeout_s=limit_s, world_size=3, folder=folder)
        self.hang = hang.Hang(settings, self.commands.append, lambda: None)  # type: ignore[arg-type]

    def hears(self, *lines: str) -> None:
        for line in lines:
            self.hang.hear(line.encode())


def dump(label: str, frames: list[tuple[str, str, str]]) -> list[str]:
    first = f"[{label}] Current thread 0x00007f5a3b7d1740 (most recent call first):"
    return [first, *(f'[{label}]   File "{file}", line {line} in {name}' for file, line, name in frames), f"[{label}] "]


def test_a_timeout_is_the_fault_of_the_rank_that_did_not_come(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path)
    job.hears("[0 n-1] step 1", f"[0 n-1] exited with code 1: {GLOO}", f"[1 n-1] exited with code 1: {GLOO}")
    assert len(job.commands) == 1 and "stacks" in job.commands[0], "they are asked once"
    job.hears(*dump("2 n-2", LOADS))
    assert (
        job.hang.blame() == "rank 2 did not come to the collective, in which ranks 0, 1 waited; "
        "rank 2 in read, called from load (data.py:40)"
    )
    assert job.hang.result() == {"missing_ranks": [2]} and job.hang.reason == ""
    at = job.hang.asked_at
    reports = [Failure(at, 1, "0", "n-1", GLOO), Failure(at + 5, 134, "2", "n-2", "killed by SIGABRT")]
    assert [each.label for each in job.hang.own(reports)] == ["0"]
    assert "the others print where they stand" in capfd.readouterr().out


def test_a_rank_that_died_by_itself_asks_nobody(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.hears("[0 n-1] exited with code 1: ValueError: no data", f"[0 n-1] {GLOO}")
    assert job.commands == [] and job.hang.result() == {} and job.hang.own([]) == []


def test_an_elastic_jobs_ranks_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIN_NODES", "1")
    job = Job(tmp_path)
    job.hears(f"[0 n-1] exited with code 1: {GLOO}")
    assert job.commands == []


PEER = "because of a peer"
KINDS = {
    "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [18.25.6.30]:28048": True,
    "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect": True,
    "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.": True,
    "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down": True,
    "killed by SIGABRT, last line: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)": True,
    "killed by SIGTERM": True,
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, invalid usage (run with NCCL_DEBUG=WARN for "
    "details), NCCL version 2.26.5; Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 6000": False,
    "RuntimeError: NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.20.5; Error: failed to extend "
    "/dev/shm/nccl-03v824 to 4194660 bytes": False,
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/gloo/part-0'": False,
    "KeyError: 'nccl'": False,
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": False,
    "out of memory: the kernel killed it, last line: [gloo] Connection closed by peer": False,
    "killed by SIGSEGV, last line: NCCL INFO Connected all rings": False,
    "ModuleNotFoundError: No module named 'peer'": False,
}


@pytest.mark.parametrize("reason", KINDS)
def test_which_errors_only_report_anothers(reason: str) -> None:
    assert Failure(1.0, 1, "0", "n", reason).because_of_a_peer is KINDS[reason]


def test_only_ranks_that_waited_count_as_waiting() -> None:
    assert failures.waited(GLOO) and not failures.waited("RuntimeError: Connection closed by peer")


def test_the_folder_for_collectives_stays_only_if_it_has_some(tmp_path: Path) -> None:
    for wrote in (False, True):
        job = Job(tmp_path)
        (tmp_path / "result.json").touch()
        place = Path(job.hang.record()["TORCH_FR_DUMP_TEMP_FILE"]).parent
        assert place.is_dir()
        if wrote:
            (place / "rank-0").touch()
        assert job.hang.result() == {}
        assert place.exists() is wrote and (tmp_path / "flights").exists() is wrote and tmp_path.exists()
