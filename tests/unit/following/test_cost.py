"""A scripted day of jobs costs what a table says that was computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from scripted_day import AN_HOUR, BY_JOB, CLUSTER, NOW, SINCE, TOTAL, UNTIL, at, found

from gpucluster.following import cost, lives


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost.prices, "usd", lambda kind, region: AN_HOUR.get(kind))


def account(records: lives.Records | None = None, *, only_own: bool = False) -> cost.Account:
    return cost.of(records or found(), CLUSTER, SINCE, UNTIL, {}, only_own=only_own)


def table(rows: Sequence[cost.Row]) -> list[tuple[str, float]]:
    return [(row.key, cents / 100) for row, cents in zip(rows, cost.cents([row.usd for row in rows]), strict=True)]


def test_the_day_by_job_is_the_table() -> None:
    rows = cost.rows(account(), "job")
    assert table(rows) == [(key, usd) for key, usd, *_ in BY_JOB]
    parts = [(row.key, *(round(each, 2) for each in (row.idle_usd, row.failed_usd, row.waiting_usd))) for row in rows]
    assert parts == [(key, *others) for key, _, *others in BY_JOB]
    assert [row.key for row in rows if row.unpriced] == ["15"]


def test_every_table_has_the_same_sum() -> None:
    for by in cost.BY:
        rows = cost.rows(account(), by)
        assert sum(cost.cents([row.usd for row in rows])) == round(TOTAL * 100), by


def test_the_day_by_user_partition_task_day_and_month() -> None:
    whole = account()
    own = [(key, usd) for key, usd, *_ in BY_JOB[-3:]]
    assert table(cost.rows(whole, "user")) == [("alice", 20.34), ("bob", 6.53), ("carol", 9.73), *own]
    assert table(cost.rows(whole, "partition")) == [
        ("always", 1.20), ("block", 0.00), ("cheap", 3.40), ("new", 0.00), ("train", 32.00), *own,
    ]  # fmt: skip
    assert ("base", 9.33) in table(cost.rows(whole, "task"))
    assert table(cost.rows(whole, "day")) == [("2026-10-31", 63.60), ("2026-11-01", 20.80)]
    assert table(cost.rows(whole, "month")) == [("2026-10", 63.60), ("2026-11", 20.80)]


@pytest.mark.parametrize("name", ["(head node)", cost.UNUSED, "9" * 5000, "1_" + "9" * 5000])
def test_no_name_of_a_job_makes_it_the_clusters_own_time(name: str) -> None:
    records = found()
    named = replace(records, runs=tuple(replace(run, name=name) for run in records.runs))
    rows = table(cost.rows(account(named), "task"))
    assert rows[1:] == [(key, usd) for key, usd, *_ in BY_JOB[-3:]] and len(rows) == 4


def test_jobs_have_their_newest_runs_state_and_an_unknown_price_is_none() -> None:
    jobs = {each.job_id: each for each in cost.of_jobs(account())}
    assert (jobs["13"].state, jobs["13"].name, jobs["13"].user) == ("COMPLETED", "spot", "carol")
    assert (jobs["13"].saved_usd, jobs["10"].saved_usd) == (None, 0.0)
    assert round(jobs["13"].wasted_usd, 2) == 1.20
    assert (jobs["15"].usd, jobs["15"].node_hours) == (None, 1.0)
    assert "18" not in jobs
    elements = {each.job_id: round(each.usd or 0, 2) for each in cost.of_jobs(account(), elements=True)}
    assert (elements["11_0"], elements["11_1"]) == (2.00, 3.00)


def test_an_instance_that_lived_for_seconds_is_billed_for_a_minute() -> None:
    life = {"instance": "i-1", "node": "train-1", "type": "g5.xlarge", "purchase": "on-demand", "launched": 100.0}
    said = {"now": 1000.0, "lives": [life | {"seen": 107.0}], "records": [], "names": {}, "waits": {}, "refused": ""}
    (short,) = lives.parse(said | {"recorded_since": 0.0}).lives
    assert (short.launched, short.seen) == (100.0, 160.0)
    (long,) = lives.parse(said | {"recorded_since": 0.0, "lives": [life | {"seen": 161.0}]}).lives
    assert long.seen == 161.0


def test_spot_saved_the_difference_of_the_prices_of_its_nodes() -> None:
    """170 minutes of three nodes: 3.40 on demand, and 60 cents an hour by EC2's history."""
    half = {"g5.xlarge": 0.60}
    saved = cost.saved_by_spot(account(), lambda kind, begin, end: half[kind] * (end - begin) / 3600)
    assert saved == pytest.approx(1.70)
    assert cost.saved_by_spot(account(), lambda kind, begin, end: None) is None


def test_who_sees_only_own_jobs_gets_no_one_elses_idle_time() -> None:
    mine = [row for row in found().runs if row.user == "alice"]
    only = lives.Records(NOW, found().lives, tuple(mine), at("30 00:00"))
    seen = account(only, only_own=True)
    assert table(cost.rows(seen, "user")) == [("alice", 15.50)]  # 5.50 of 10, 9.00 of 12, and 1.00: nobody beside it
    assert any("only your own jobs" in each for each in seen.lacks)


def test_before_instances_were_recorded_only_running_jobs_count() -> None:
    old = account(found(lives=[], recorded_since=None))
    by_job = dict(table(cost.rows(old, "job")))
    assert by_job == {
        "10": 5.50, "11": 5.00 - 1.00, "12": 2.00 + 6.00, "13": 1.70, "14": 1.20, "15": 0.00, "16": 7.20,
        "17": 0.00, "20": 0.34, "21": 0.33, "22": 0.33,
    }  # fmt: skip
    assert old.lacks == ("the head node does not record its nodes yet: only the time in which jobs ran is counted",)


def test_recording_that_began_in_the_time_counts_each_second_once() -> None:
    """Nodes that ran at that moment are recorded from their launch on; those that had ended are not."""
    later = at("31 21:30")
    recorded = [each for each in found().lives if each.seen > later]
    half = lives.Records(NOW, tuple(recorded), found().runs, later)
    spent = account(half)
    assert dict(table(cost.rows(spent, "job")))["13"] == 0.90 + 1.20
    assert round(sum(each.usd or 0 for each in spent.charges), 2) == round(TOTAL - 1.00 - 0.10, 2)
    assert "recorded since 2026-10-31 21:30 UTC" in spent.lacks[0]


def test_without_accounting_nothing_belongs_to_a_job() -> None:
    spent = account(found(records=[], refused="sacct: error: Slurm accounting storage is disabled"))
    rows = dict(table(cost.rows(spent, "job")))
    assert set(rows) == {key for key, *_ in BY_JOB[-3:]}
    assert round(sum(rows.values()), 2) == TOTAL
    assert "Slurm accounting storage is disabled" in spent.lacks[0]


@pytest.mark.parametrize(
    ("usd", "whole"),
    [([1 / 3] * 3, [34, 33, 33]), ([0.005, 0.005], [1, 0]), ([], []), ([0.1 + 0.2], [30]), ([9.0, 0.0], [900, 0])],
)
def test_cents_add_up_to_the_rounded_sum(usd: list[float], whole: list[int]) -> None:
    assert cost.cents(usd) == whole
    assert sum(whole) == round(sum(usd) * 100)


def test_the_price_an_hour_now_is_what_the_head_node_last_counted() -> None:
    class Head:
        text = '{"usd": 3.0, "month": "2026-11", "usd_per_hour": {"train": 12.0, "cheap": 1.2}}'

        def run(self, argv: list[str]) -> Any:
            assert argv == ["cat", "/home/gpucluster/spending.json"]
            return type("Completed", (), {"stdout": self.text})

    head: Any = Head()
    assert cost.per_hour(head, CLUSTER) == pytest.approx(13.2)
    head.text = ""
    assert cost.per_hour(head, CLUSTER) is None
