"""The points of a job's metrics, read by the head node's program from a folder on this machine."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

from gpucluster import account
from gpucluster.following import lives, metrics, usage
from gpucluster.following.metrics import Point
from tests.in_process import InProcessRemote


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of job 7."""
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    made = tmp_path / "jobs" / "by-id" / "7"
    made.mkdir(parents=True)
    return made


def line(time_s: float, values: dict[str, Any], **more: Any) -> str:
    return json.dumps({"time_s": time_s, "run": 0, "rank": 0, "step": None, "values": values} | more) + "\n"


def read(folder: Path, *lines: str, names: tuple[str, ...] = (), file: str = "metrics.jsonl", job_id: str = "7") -> Any:
    (folder / file).write_text("".join(lines))
    return metrics.points(InProcessRemote(), job_id, names)


def test_points_have_time_step_and_value(folder: Path) -> None:
    found = read(folder, line(1.5, {"loss": 2.0, "accuracy": 0.5}, step=3), line(2.5, {"loss": 1}))
    assert found == {"loss": [Point(1.5, 3, 2.0), Point(2.5, None, 1.0)], "accuracy": [Point(1.5, 3, 0.5)]}


def test_only_the_named_metrics_travel(folder: Path) -> None:
    assert list(read(folder, line(1, {"loss": 2.0, "accuracy": 0.5}), names=("loss",))) == ["loss"]


def test_a_value_that_is_not_finite_is_nan(folder: Path) -> None:
    (only,) = read(folder, line(1, {"loss": None}))["loss"]
    assert math.isnan(only.value)


def test_of_each_run_the_lowest_rank_counts_and_what_is_logged_before_what_is_printed(folder: Path) -> None:
    lines = [
        line(1, {"loss": 1.0}, rank=3),
        line(2, {"loss": 2.0}, rank=1),
        line(3, {"loss": 3.0}, rank=2),
        line(4, {"loss": 4.0}, run=1, rank=5),
        line(5, {"loss": 5.0}, run=1, rank=6, logged=True),
    ]
    assert [each.value for each in read(folder, *lines)["loss"]] == [2.0, 5.0]


@pytest.mark.parametrize(
    "bad",
    [
        "no JSON\n",
        "[1, 2]\n",
        "[" * 60_000 + "\n",
        '{"time_s": 1}\n',
        '{"time_s": "now", "values": {"loss": 1}}\n',
        '{"time_s": NaN, "values": {"loss": 1}}\n',
        line(1, {"loss": "1"}),
        line(1, {"loss": True}),
        line(1, {"loss": 10**400}),
        line(1, {"loss": [1]}),
        '{"time_s": 1, "values": {"loss": 1}, "more": "' + "x" * 2**17 + '"}\n',
        "\x00\x00\n",
    ],
    ids=range(12),
)
def test_a_line_that_is_none_is_left_out(folder: Path, bad: str) -> None:
    found = read(folder, line(1, {"loss": 1.0}), bad, line(2, {"loss": 2.0}), '{"time_s": 3, "values": {"loss"')
    assert [each.value for each in found["loss"]] == [1.0, 2.0]


def test_a_job_without_metrics_has_no_points(folder: Path) -> None:
    assert metrics.points(InProcessRemote(), "7") == {}
    os.mkfifo(folder / "metrics.jsonl")  # nobody writes into it
    assert metrics.points(InProcessRemote(), "7") == {}


def test_an_earlier_run_of_an_element_has_its_own_points(folder: Path) -> None:
    element = folder / "3"
    element.mkdir()
    (folder.parent / "9").symlink_to(folder)
    read(element, line(1, {"loss": 1.0}), file="metrics-7.jsonl")
    assert [each.value for each in read(element, line(2, {"loss": 2.0}), job_id="9_3")["loss"]] == [2.0]
    assert [each.value for each in metrics.points(InProcessRemote(), "7_3")["loss"]] == [1.0]


def test_a_long_curve_keeps_its_peaks_and_its_ends(folder: Path) -> None:
    lines = [line(at, {"loss": 1000.0 if at == 60_001 else 0.25}, step=at) for at in range(100_000)]
    began = time.process_time()
    found = read(folder, *lines)["loss"]
    assert time.process_time() - began < 20
    assert len(found) <= metrics.MOST_POINTS
    assert [each for each in found if each.value == 1000.0] == [Point(60_001, 60_001, 1000.0)]
    assert (found[0].step, found[-1].step) == (0, 99_999)


def test_a_metric_has_a_limited_number_of_names(folder: Path) -> None:
    assert len(read(folder, *(line(1, {f"name{number}": 1.0}) for number in range(1500)))) == 1000


def test_of_many_metrics_fewer_values_travel(folder: Path) -> None:
    values = {f"name{number}": 1.0 for number in range(500)}
    found = read(folder, *(line(at, values, step=at) for at in range(400)))
    assert {len(points) for points in found.values()} <= set(range(100, 201))
    assert len(read(folder, *(line(at, values, step=at) for at in range(400)), names=("name3",))["name3"]) == 400


def run(started: float | None, ended: float | None, *nodes: str) -> lives.Run:
    return lives.Run("7", "ann", "train", "RUNNING", 50.0, 60.0, started, ended, nodes, 8, 4)


OWN = {"result": {"started_at": "1970-01-01T00:01:40Z", "ended_at": "1970-01-01T00:03:20Z"}}


@pytest.mark.parametrize(
    ("runs", "own", "asked"),
    [
        ((run(100.0, 200.0, "train-1", "train-2"),), {}, (["train-1", "train-2"], 100.0, 200.0)),
        # it was requeued, and runs on another node
        ((run(100.0, 200.0, "train-1"), run(300.0, None, "train-3")), {}, (["train-1", "train-3"], 100.0, 500.0)),
        ((run(None, None),), {}, None),
        # without accounting, the job's own result decides
        ((), OWN, (["train-1", "train-2"], 100.0, 200.0)),
        ((), {}, None),
    ],
)
def test_a_jobs_samples_are_those_of_its_nodes_and_its_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, runs: Any, own: Any, asked: Any
) -> None:
    (folder / "result.json").write_text(json.dumps({"exit_code": 0, "node_list": ["train-1", "train-2"]}))
    monkeypatch.setattr(lives, "of_job", lambda remote, job_id: lives.Records(500.0, (), runs, None, own=own))
    monkeypatch.setattr(metrics.jobs, "find", lambda remote, job_id: None)
    called: list[Any] = []
    series = [usage.Series("train-1", gpu, "gpu_util_percent", "%", ()) for gpu in (0, 1)]
    monkeypatch.setattr(usage, "series", lambda remote, *given: called.append(given) or series)
    monkeypatch.setattr(usage, "gpus_of", lambda remote, job_id, *where: {"train-1": frozenset({1})})
    found = metrics.samples(InProcessRemote(), "7", ("gpu_util_percent",))
    assert (called, found) == (([(*asked, ("gpu_util_percent",), None)], series[1:]) if asked else ([], []))
