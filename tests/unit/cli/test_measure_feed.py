"""`bench --feed`: three speeds, and what they say about the limit."""

from __future__ import annotations

from typing import Any

import pytest

from gpucluster.following.jobs import Ending
from gpucluster.job import JobSpec
from gpucluster.measure import feed
from gpucluster.measure.runs import Run
from gpucluster.measure.settings import FEED, FEED_TIME, PARTS, PLAIN, Setting, as_run, settings, variant
from gpucluster_train import feed_trial


def run(part: str, result: dict[str, Any], state: str = "COMPLETED") -> Run:
    return Run(Setting("torchrun", PLAIN, 1, part), "12", Ending(state, result), 8)


def measured(training: float, loader: float, together: float, cold: float | None = None) -> list[Run]:
    found = {"resident": {"per_s": training}, "loader": {"per_s": loader}, "real": {"per_s": together}}
    if cold is not None:
        found["loader"]["cold_per_s"] = cold
    return [run(part, {"feed": {"unit": "samples", **found[part]}}) for part in PARTS]


@pytest.mark.parametrize(
    ("figures", "limit"),
    [
        ((19800, 7700, 7500), "loader"),
        ((19800, 7700, 7500, 7600), "loader"),
        ((19800, 7700, 7500, 1360), "storage"),
        ((19800, 40000, 19700, 10900), "storage"),  # the third run reads what the second one has left in memory
        ((19800, 40000, 19700, 30000), "training"),
        ((19800, 20000, 19000), "training"),
        ((19800, 22000, 12000), "both"),
    ],
)
def test_the_limit(figures: tuple[float, ...], limit: str) -> None:
    (found,) = feed.speeds(measured(*figures))
    assert found.limit == limit and found.as_json()["limit"] == limit


def test_the_line_has_the_speeds_the_limit_and_the_remedy() -> None:
    (found,) = feed.speeds(measured(19800.4, 7700, 7500))
    line = found.line()
    assert line.startswith(
        "torchrun on 1 node: training alone 19,800 | loader alone 7,700 | both 7,500 samples/s: the loader limits; "
    )
    assert "decode on the GPUs" in line
    (found,) = feed.speeds(measured(19800, 7700, 7500, 1360))
    assert "loader alone 7,700, 1,360 from cold files | both" in found.line()
    assert "mode: copy" in found.line()


def test_a_missing_figure_is_named_and_no_limit_is_guessed() -> None:
    resident, loader, real = measured(19800, 7700, 7500)
    loader = run("loader", {"exit_code": 0})
    failed = run("real", {"reason": "boom", "exit_code": 1}, "FAILED")
    (found,) = feed.speeds([resident, loader, failed])
    assert found.limit == "" and found.as_json()["limit"] is None
    assert "loader alone not measured | both not measured samples/s: a figure is missing" in found.line()
    assert list(feed.doubts([resident, loader, failed])) == [
        "torchrun on 1 node, loader alone: job 12 ended before it had passed enough batches, or has no Feed; wrap its "
        "loader: `for batch in gpucluster_train.feed.Feed(loader)`",
        "torchrun on 1 node, both: job 12 failed: boom",
    ]


def test_repeats_are_averaged_and_settings_kept_apart() -> None:
    made = [*measured(100, 50, 40), *measured(300, 70, 60)]
    (found,) = feed.speeds(made)
    assert (found.training, found.loader, found.together) == (200, 60, 50)
    wanted = settings(["torchrun"], [variant("workers=12")], [2], tuple(PARTS))
    assert [str(each) for each in wanted[3:]] == [
        f"torchrun workers=12 on 2 nodes, {words}" for words in ("training alone", "loader alone", "both")
    ]


def test_a_run_measures_one_part_and_cannot_train_for_days() -> None:
    spec = JobSpec(command=("python", "train.py"))
    job = as_run(spec, Setting("torchrun", PLAIN, 1, "loader"), 0)
    assert job.env[FEED] == "loader" and job.time == FEED_TIME
    limited = as_run(spec.model_copy(update={"time": "2:00:00"}), Setting("torchrun", PLAIN, 1, "loader"), 0)
    assert limited.time == "2:00:00"
    plain = as_run(spec, Setting("torchrun", PLAIN, 1), 0)
    assert FEED not in plain.env and plain.time is None


def test_the_program_knows_the_same_variable_and_parts() -> None:
    assert feed_trial.MODE == FEED
    assert list(PARTS) == [feed_trial.RESIDENT, feed_trial.LOADER, feed_trial.REAL]
