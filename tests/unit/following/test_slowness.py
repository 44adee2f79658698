"""What makes a running job slow, from its nodes' samples, NCCL's reports and its log."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpucluster.following import slowness, usage
from gpucluster.following.known.table import CAUSES
from gpucluster.following.slowness import Seen, judge
from gpucluster.following.usage import GpuNow, NodeNow, Series
from gpucluster.head import queue
from localcloud.testing.recorded import record
from tests.in_process import InProcessRemote

NODES = ("train-1", "train-2")


def flat(node: str, name: str, value: float, gpu: int | None = None) -> Series:
    return Series(node, gpu, name, usage.UNITS[name], ((1.0, value), (2.0, float("nan")), (3.0, value)))


def series(util: dict[str, list[float]], **of_nodes: float) -> list[Series]:
    gpus = [flat(node, "gpu_util_percent", each, gpu) for node, all_ in util.items() for gpu, each in enumerate(all_)]
    return [*gpus, *(flat(node, name, value) for node in util for name, value in of_nodes.items())]


BUSY = {"train-1": [95.0, 97.0], "train-2": [96.0, 94.0]}
HUNGRY = {"train-1": [30.0, 40.0], "train-2": [35.0, 38.0]}
GPU = GpuNow(1, 95.0, 20.0, 40.0, 300.0, 70.0, ())
CLOCKS = [flat(node, "gpu_sm_clock_mhz", 1400.0, gpu) for node in NODES for gpu in (0, 1)]
SLOW_CLOCK = [replace(CLOCKS[0], points=((1.0, 900.0),)), *CLOCKS[1:]]
STRAGGLER = {"train-1": [98.0, 99.0], "train-2": [70.0, 97.0]}

CASES: dict[str, tuple[Seen, Seen]] = {
    # What shows the cause, and what is near and does not.
    "data-starved": (
        Seen(NODES, series(HUNGRY, cpu_percent=97.0)),
        Seen(NODES, series(BUSY, cpu_percent=97.0)),
    ),
    "storage-starved": (
        Seen(NODES, series(HUNGRY, cpu_percent=20.0, io_wait_percent=12.0)),
        Seen(NODES, series(HUNGRY, cpu_percent=20.0, io_wait_percent=1.0)),
    ),
    "gpu-idle": (Seen(NODES, series({"train-1": [0.0, 1.0]})), Seen(NODES, series({"train-1": [0.0, 30.0]}))),
    "one-gpu-idle": (Seen(NODES, series({"train-1": [0.0, 90.0]})), Seen(NODES, series({"train-1": [0.0, 20.0]}))),
    "slow-rank": (
        Seen(NODES, series(STRAGGLER)),
        Seen(NODES, series({"train-1": [98.0, 40.0], "train-2": [70.0, 20.0]})),
    ),
    "low-clock": (Seen(NODES, [*series(BUSY), *SLOW_CLOCK]), Seen(NODES, [*series(HUNGRY), *SLOW_CLOCK])),
    "throttled-gpu": (
        Seen(NODES, now=[NodeNow("train-1", 1.0, 50.0, 1.0, 2.0, (replace(GPU, throttled=("heat",)),))]),
        Seen(NODES, now=[NodeNow("train-1", 1.0, 50.0, 1.0, 2.0, (GPU,))]),
    ),
    "efa-unused": (
        Seen(NODES, series(BUSY, efa_gib_s=0.0, network_gib_s=0.5), expects_efa=True),
        Seen(NODES, series(BUSY, efa_gib_s=2.0, network_gib_s=0.5), expects_efa=True),
    ),
    "retransmits": (
        Seen(NODES, series(BUSY, efa_retransmits_s=900.0)), Seen(NODES, series(BUSY, efa_retransmits_s=3.0)),
    ),
    "tcp": (
        Seen(NODES, lines=record("nccl/no-plugin-sockets.txt"), expects_efa=True),
        Seen(NODES, lines=record("nccl/no-plugin-sockets.txt")),
    ),
    "no-plugin": (
        Seen(NODES, lines=record("nccl/plugin-present-no-efa.txt"), expects_efa=True),
        Seen(NODES[:1], lines=record("nccl/plugin-present-no-efa.txt"), expects_efa=True),
    ),
    "shm-path": (
        Seen(NODES, lines="x [1] NCCL INFO Channel 00 : 2[1] -> 0[0] via SHM/direct/direct", linked=True),
        Seen(NODES, lines="x [1] NCCL INFO Channel 00 : 2[1] -> 0[0] via SHM/direct/direct"),
    ),
}  # fmt: skip


def ids(seen: Seen, *, long: bool = True) -> list[str]:
    return [each.cause.id for each in judge(seen, long=long)]


@pytest.mark.parametrize("name", CASES)
def test_samples_that_show_a_cause_and_near_ones_that_do_not(name: str) -> None:
    shown, near = CASES[name]
    assert name in ids(shown) and name not in ids(near)


def test_each_row_that_code_reads_has_a_case() -> None:
    read = {cause.id for cause in CAUSES if cause.place == "samples"}
    assert read <= set(CASES)


def test_a_healthy_job_is_not_slow() -> None:
    healthy = series(BUSY, cpu_percent=60.0, io_wait_percent=1.0, efa_gib_s=3.0, network_gib_s=0.2)
    assert judge(Seen(NODES, [*healthy, *CLOCKS], expects_efa=True, linked=True)) == []
    assert judge(Seen()) == []


def test_the_slow_rank_is_named_with_its_node() -> None:
    (each,) = judge(Seen(NODES, series(STRAGGLER)))
    assert each.sentence.startswith("GPU 0 of train-2: this GPU works less than the others")
    assert each.evidence == "70 %, the others 98 %"


def test_many_nodes_with_one_cause_are_one_line() -> None:
    many = {f"train-{number}": [30.0] for number in range(64)}
    (each,) = judge(Seen(tuple(many), series(many, cpu_percent=99.0)))
    assert each.where == "train-0 and 63 more"


def test_a_short_idle_time_is_not_idleness() -> None:
    assert ids(CASES["gpu-idle"][0], long=False) == []


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A running job's folder, and a head node with scontrol."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/scontrol").write_text("#!/bin/sh\nprintf 'train-1\\ntrain-2\\n'\n")
    (tmp_path / "bin/scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "preflight").mkdir()
    expected = {"efa_interfaces": {"p4d.24xlarge": 4}, "efa": "auto"}
    (tmp_path / "preflight/expected.json").write_text(json.dumps(expected))
    (tmp_path / "nccl").mkdir()
    (tmp_path / "nccl/rank-0.77.txt").write_text(record("nccl/no-plugin-sockets.txt"))
    (tmp_path / "log.txt").write_text("[0 train-1] step 1\n")
    started = tmp_path / "started"
    started.touch()
    os.utime(started, (time.time() - 1000,) * 2)
    (found,) = queue.parse_jobs("7|RUNNING|train|2|train-[1-2]|0:20|UNLIMITED|x|x|digits|None")
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def read(remote: Any, nodes: Any, start_s: float, end_s: float, names: Any) -> list[Series]:
        seen.update(nodes=nodes, seconds=end_s - start_s)
        return series(BUSY)

    monkeypatch.setattr(usage, "series", read)
    monkeypatch.setattr(usage, "gpus_of", lambda *asked: seen.pop("gpus", {}))
    monkeypatch.setattr(
        usage, "now", lambda remote: [NodeNow("other-1", 1.0, 1.0, 1.0, 1.0, (replace(GPU, throttled=("x",)),))]
    )
    return seen


def test_a_running_jobs_folder_and_samples_are_read(job: Any, tmp_path: Path, asked: dict[str, Any]) -> None:
    found = slowness.of(InProcessRemote(), job, str(tmp_path))
    assert [each.cause.id for each in found.found] == ["no-plugin", "tcp"] and found.lacks == []
    assert asked == {"nodes": NODES, "seconds": 600.0}


def test_gpus_of_other_jobs_on_its_nodes_are_not_its_own(
    job: Any, tmp_path: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among a sweep's elements, which share a node, one idles and one is slowed: the others are well."""
    (tmp_path / "nccl/rank-0.77.txt").unlink()
    others = series({"train-1": [0.0, 95.0, 96.0, 97.0]})
    throttled = NodeNow("train-1", 1.0, 1.0, 1.0, 1.0, (replace(GPU, index=0, throttled=("heat",)), GPU))
    monkeypatch.setattr(usage, "series", lambda *given: others)
    monkeypatch.setattr(usage, "now", lambda remote: [throttled])
    assert ids_of(slowness.of(InProcessRemote(), job, str(tmp_path))) == ["one-gpu-idle", "throttled-gpu"]
    asked["gpus"] = {"train-1": frozenset({1, 2, 3})}
    assert ids_of(slowness.of(InProcessRemote(), job, str(tmp_path))) == []


def ids_of(found: slowness.Slowness) -> list[str]:
    return [each.cause.id for each in found.found]


def test_without_samples_it_says_what_it_cannot_tell(job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_API", "http://127.0.0.1:9/api/v1/")
    found = slowness.of(InProcessRemote(), job, str(tmp_path))
    assert [each.cause.id for each in found.found] == ["no-plugin", "tcp"], "NCCL's reports need no samples"
    (lack,) = found.lacks
    assert lack.startswith("whether its GPUs, disks and network are busy cannot be told: no Prometheus answers")


def test_a_job_that_has_just_begun_is_not_judged(job: Any, tmp_path: Path) -> None:
    (tmp_path / "started").touch()
    assert slowness.of(InProcessRemote(), job, str(tmp_path)) == slowness.Slowness()
    assert slowness.of(InProcessRemote(), job, str(tmp_path / "none")) == slowness.Slowness()


@pytest.mark.parametrize("text", ["", "[]", '{"efa_interfaces": [1]}', '{"efa_interfaces": {"x": "y"}}', "\x00"])
def test_a_users_file_is_not_trusted(job: Any, tmp_path: Path, text: str, asked: dict[str, Any]) -> None:
    (tmp_path / "preflight/expected.json").write_text(text)
    assert slowness.of(InProcessRemote(), job, str(tmp_path)).found == []
