"""A scripted day of jobs costs what a table says that was computed by hand.

The day is 31 October 2026 and the first hours of November: a month ends in it, and summer time in New York, where
01:00 to 02:00 comes twice, at 05:00 and 06:00 UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from gpucluster import config
from gpucluster.following import cost, lives

CLUSTER = config.loads(
    """
name: Mine
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 8}
  - {name: cheap, instance_types: [g5.xlarge], max_nodes: 4, purchase: spot}
  - {name: always, instance_types: [g5.xlarge], min_nodes: 1, max_nodes: 1}
  - {name: new, instance_types: [p5e.48xlarge], max_nodes: 1}
  - name: block
    instance_types: [p5.48xlarge]
    max_nodes: 1
    purchase: capacity-block
    reservation_id: cr-0123456789abcdef0
    placement_group: none
"""
)
AN_HOUR = {"g5.12xlarge": 6.00, "g5.xlarge": 1.20, "m6i.2xlarge": 0.40}
"""10 cents and 2 cents a minute; the head node's 40 cents an hour."""


def at(text: str) -> float:
    """`31 22:05`: of October; `1 00:10`: of November."""
    day, time = text.split()
    month = 10 if int(day) > 1 else 11
    return datetime.fromisoformat(f"2026-{month}-{int(day):02}T{time}:00+00:00").timestamp()


SINCE, UNTIL, NOW = at("31 00:00"), at("1 23:00"), at("1 06:00")

LIVES = """
train-1   g5.12xlarge  on-demand       31 22:00  31 23:30
train-2   g5.12xlarge  on-demand       31 22:00  1 00:40
train-3   g5.12xlarge  on-demand       31 09:00  31 09:10
train-4   g5.12xlarge  on-demand       31 15:00  31 15:10
train-1   g5.12xlarge  on-demand       1 05:00   1 06:00
cheap-1   g5.xlarge    spot            31 20:00  31 20:50
cheap-1   g5.xlarge    spot            31 21:00  31 22:00
cheap-2   g5.xlarge    spot            1 05:00   1 06:00
always-1  g5.xlarge    on-demand       30 00:00  1 06:00
new-1     p5e.48xlarge on-demand       31 10:00  31 11:00
block-1   p5.48xlarge  capacity-block  31 08:00  31 10:00
head      m6i.2xlarge  on-demand       30 12:00  1 06:00
"""

# As sacct prints the fields of node_hours.FIELDS (Slurm 24.11), but with times that people can read.
JOBS = """
10|alice|train|COMPLETED|31 22:00|31 22:05|31 23:00|train-1|48|billing=48,cpu=48,gres/gpu=4,node=1
11_0|bob|train|COMPLETED|31 22:00|31 22:10|31 22:40|train-2|12|billing=12,cpu=12,gres/gpu=1,node=1
11_1|bob|train|COMPLETED|31 22:00|31 22:10|31 23:10|train-2|12|billing=12,cpu=12,gres/gpu=1,node=1
12|alice|train|COMPLETED|31 22:00|31 22:40|1 00:10|train-2|24|billing=24,cpu=24,gres/gpu=2,node=1
13|carol|cheap|NODE_FAIL|31 20:00|31 20:05|31 20:50|cheap-1|4|billing=4,cpu=4,gres/gpu=1,node=1
13|carol|cheap|COMPLETED|31 20:50|31 21:05|31 21:45|cheap-1|4|billing=4,cpu=4,gres/gpu=1,node=1
14|bob|always|FAILED|31 12:00|31 12:00|31 13:00|always-1|4|billing=4,cpu=4,gres/gpu=1,node=1
15|bob|new|COMPLETED|31 10:00|31 10:00|31 11:00|new-1|192|billing=192,cpu=192,gres/gpu=8,node=1
16+0|carol|train|RUNNING|1 05:00|1 05:00|Unknown|train-1|48|billing=48,cpu=48,gres/gpu=4,node=1
16+1|carol|cheap|RUNNING|1 05:00|1 05:00|Unknown|cheap-2|4|billing=4,cpu=4,node=1
17|bob|block|COMPLETED|31 08:00|31 08:00|31 10:00|block-1|192|billing=192,cpu=192,gres/gpu=8,node=1
18|bob|train|PENDING|31 08:00|Unknown|Unknown|None assigned|0|
19|bob|train|CANCELLED by 1000|31 08:00|None|31 08:01|None assigned|0|
20|alice|train|COMPLETED|31 15:00|31 15:00|31 15:10|train-4|12|billing=12,cpu=12,gres/gpu=1,node=1
21|bob|train|COMPLETED|31 15:00|31 15:00|31 15:10|train-4|12|billing=12,cpu=12,gres/gpu=1,node=1
22|carol|train|COMPLETED|31 15:00|31 15:00|31 15:10|train-4|12|billing=12,cpu=12,gres/gpu=1,node=1
"""
NAMES = {"10": "base", "11_0": "lr", "11_1": "lr", "12": "half", "13": "spot", "14": "eval", "20": "base"}

BY_JOB = [
    # key, USD, of these: idle, failed, waiting
    ("10", 9.00, 3.50, 0.00, 0.00),  # 90 minutes: 5 of boot, 55 of use, 30 until the end
    ("11", 5.00, 1.00, 0.00, 0.00),  # 11_0: .50 + 1.50; 11_1: .50 + 1.50 + 1.00 beside 12
    ("12", 11.00, 3.00, 0.00, 0.00),  # 2.00 beside 11_1, 6.00 alone, 3.00 until the node's end
    ("13", 2.20, 0.50, 1.00, 0.20),  # 50 minutes lost; 60 minutes, of whose 40 of use a quarter waited
    ("14", 1.20, 0.00, 1.20, 0.00),
    ("15", 0.00, 0.00, 0.00, 0.00),  # and an hour of a type without a price
    ("16", 7.20, 0.00, 0.00, 0.00),  # an hour of both of its nodes
    ("17", 0.00, 0.00, 0.00, 0.00),  # paid in advance
    ("20", 0.34, 0.00, 0.00, 0.00),  # a dollar for three
    ("21", 0.33, 0.00, 0.00, 0.00),
    ("22", 0.33, 0.00, 0.00, 0.00),
    ("(always-on nodes without a job)", 34.80, 34.80, 0.00, 0.00),  # 30 hours without the hour of job 14
    ("(head node)", 12.00, 0.00, 0.00, 0.00),
    ("(nodes that no job used)", 1.00, 1.00, 0.00, 0.00),
]
TOTAL = 84.40


def epoch(text: str) -> str:
    return str(int(at(text))) if text[0].isdigit() else text


def found(**changed: Any) -> lives.Records:
    records = [line.split("|") for line in JOBS.strip().splitlines()]
    records = [[*row[:4], *map(epoch, row[4:7]), *row[7:]] for row in records]
    running = []
    for number, line in enumerate(LIVES.strip().splitlines()):
        node, kind, purchase, *times = line.split()
        begin, end = at(" ".join(times[:2])), at(" ".join(times[2:]))
        running.append(
            {
                "instance": f"i-{number}",
                "node": node,
                "type": kind,
                "purchase": purchase,
                "launched": begin,
                "seen": end,
            }
        )
    raw = {"now": NOW, "recorded_since": at("30 00:00"), "refused": "", "waits": {"13": 25.0}}
    return lives.parse({**raw, "records": records, "lives": running, "names": NAMES, **changed})


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


def test_jobs_have_their_newest_runs_state_and_an_unknown_price_is_none() -> None:
    jobs = {each.job_id: each for each in cost.of_jobs(account())}
    assert (jobs["13"].state, jobs["13"].name, jobs["13"].user) == ("COMPLETED", "spot", "carol")
    assert (jobs["13"].saved_usd, jobs["10"].saved_usd) == (None, 0.0)
    assert round(jobs["13"].wasted_usd, 2) == 1.20
    assert (jobs["15"].usd, jobs["15"].node_hours) == (None, 1.0)
    assert "18" not in jobs
    elements = {each.job_id: round(each.usd or 0, 2) for each in cost.of_jobs(account(), elements=True)}
    assert (elements["11_0"], elements["11_1"]) == (2.00, 3.00)


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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train-[1-2,4],ps-1", ["train-1", "train-2", "train-4", "ps-1"]),
        ("a-b-[009-011]", ["a-b-009", "a-b-010", "a-b-011"]),
        ("None assigned", []),
        ("", []),
    ],
)
def test_a_node_list_is_expanded(text: str, names: list[str]) -> None:
    assert list(lives.expand(text)) == names
