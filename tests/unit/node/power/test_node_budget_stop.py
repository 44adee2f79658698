"""Running nodes end when the month's budget is spent, if the cluster file says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import ec2, fleet, slurm
from gpucluster_node.power import budget_stop
from played_slurm import PlayedSlurm

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
PARTITIONS = (
    fleet.Partition("train", 0, 9, "on-demand"),
    fleet.Partition("always", 2, 2, "on-demand"),
    fleet.Partition("block", 0, 9, "capacity-block"),
    fleet.Partition("reserved", 0, 9, "reservation"),
)
CLUSTER = fleet.Fleet("c", "c.internal", "/c/", PARTITIONS, monthly_usd=100.0, stops_nodes=True)
SPENT, WORDS = 100.0, "the budget of 100 USD a month is reached: it is terminated at 2026-01-31T12:02:00Z"


class Head(PlayedSlurm):
    """With nodes in service."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.states = {"train-1": "ALLOCATED+CLOUD"}
        self.cluster = CLUSTER
        self.overspent = budget_stop.BudgetStop(lambda: self.cluster)

    def look(self, at: timedelta = timedelta(), usd: float = SPENT) -> list[list[str]]:
        self.ran = []
        nodes = [slurm.Node(name, frozenset(states.split("+"))) for name, states in self.states.items()]
        own = {each: ec2.Instance(f"i-{each}", "running", None, NOW, each, None) for each in self.states}
        self.overspent.look(nodes, own, usd, NOW + at)
        return self.ran


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    made = Head(tmp_path)
    monkeypatch.setattr(slurm, "call", made.run)
    return made


def ended(state: str, node: str = "train-1", words: str = WORDS) -> list[str]:
    return ["scontrol", "update", f"nodename={node}", f"state={state}", f"reason={words}"]


COMMENT = ["scontrol", "update", "jobid=7", f"admincomment=run 0: train-1 was lost: {WORDS}"]
REQUEUE = ["scontrol", "requeue", "incomplete", "7"]
EARLY, LAST = "power_down_asap", "power_down_force"


def test_a_job_leaves_and_its_node_ends(head: Head) -> None:
    head.submit("--signal=B:USR1@60")
    assert head.look(usd=99.99) == []
    signal = ["scancel", "--batch", "--signal=USR1", "7"]
    assert head.look() == [COMMENT, signal, ended(EARLY)]
    assert head.look(timedelta(seconds=79), usd=101.0) == []
    assert head.look(timedelta(seconds=80)) == [REQUEUE]
    assert head.look(timedelta(seconds=119)) == []
    assert head.look(timedelta(seconds=120)) == [ended(LAST)]
    assert head.look(timedelta(seconds=125)) == [], "once"


def test_an_elastic_job_is_requeued_because_all_of_its_nodes_end(head: Head) -> None:
    head.submit("--no-kill")
    head.look()
    assert head.look(timedelta(seconds=90)) == [REQUEUE]


def test_a_job_of_many_nodes_is_looked_at_once(head: Head) -> None:
    head.submit("--signal=B:USR1@60", nodes="train-1,train-2,train-3")
    head.states = dict.fromkeys(("train-1", "train-2", "train-3"), "ALLOCATED+CLOUD")
    update = ended(EARLY, "train-1,train-2,train-3")
    assert head.look() == [COMMENT, ["scancel", "--batch", "--signal=USR1", "7"], update]
    assert head.look(timedelta(seconds=80)) == [REQUEUE]


@pytest.mark.parametrize(("asked", "seconds"), [(300, 300), (3600, 600)])
def test_a_job_that_asked_for_more_time_gets_it_up_to_ten_minutes(head: Head, asked: int, seconds: int) -> None:
    head.submit(f"--signal=B:USR1@{asked}")
    assert ["scancel", "--batch", "--signal=USR1", "7"] in head.look()
    assert head.look(timedelta(seconds=seconds - 41)) == []
    assert head.look(timedelta(seconds=seconds - 40)) == [REQUEUE]


def test_a_node_ends_only_when_an_epilog_has_saved_its_jobs_files(head: Head) -> None:
    """Slurm would power it down at once."""
    head.look()
    head.states = {"train-1": "IDLE+CLOUD+COMPLETING+DRAIN+POWER_DOWN"}
    assert head.look(timedelta(seconds=120)) == []
    assert head.look(timedelta(minutes=17)) == [ended(LAST)], "an epilog that never ends"


@pytest.mark.parametrize(
    ("node", "state"),
    [("always-1", "IDLE+CLOUD"), ("train-2", "ALLOCATED+DRAIN+CLOUD"), ("always-1", "IDLE+DRAIN+CLOUD")],
    ids=["may serve a file system", "somebody drained it", "both"],
)
def test_a_node_that_is_always_on_or_drained_ends_at_the_end(head: Head, node: str, state: str) -> None:
    """Slurm would never power it down by itself."""
    head.states = {node: state}
    assert head.look() == head.look(timedelta(seconds=119)) == []
    assert head.look(timedelta(seconds=120)) == [ended(LAST, node)]


def test_other_nodes_stay(head: Head) -> None:
    """AWS bills a reservation anyway. A node without an instance costs nothing, and one that boots ends later."""
    head.states = {
        "train-3": "IDLE+POWERING_UP+CLOUD", "train-4": "IDLE+POWERED_DOWN+CLOUD", "block-1": "ALLOCATED+CLOUD",
        "reserved-1": "IDLE+CLOUD",
    }  # fmt: skip
    assert [head.look(timedelta(seconds=seconds)) for seconds in (0, 120)] == [[], []]


def test_a_node_that_joins_later_has_its_own_end(head: Head) -> None:
    head.look()
    head.states["train-2"] = "ALLOCATED+CLOUD"
    head.submit("--signal=B:USR1@60", nodes="train-2")
    later = WORDS.replace("12:02:00", "12:05:00")
    ran = head.look(timedelta(minutes=3))
    assert ran[-2:] == [ended(LAST), ended(EARLY, "train-2", later)]
    assert ["scancel", "--batch", "--signal=USR1", "7"] in ran
    assert head.look(timedelta(minutes=5)) == [REQUEUE, ended(LAST, "train-2", later)]


@pytest.mark.parametrize("cluster", [replace(CLUSTER, stops_nodes=False), replace(CLUSTER, monthly_usd=None)])
def test_without_the_option_nodes_stay(head: Head, cluster: fleet.Fleet) -> None:
    head.cluster = cluster
    assert head.look(usd=1000.0) == []


def test_a_higher_limit_counts_at_once(head: Head) -> None:
    """`gpucluster up` writes it before it starts this program anew."""
    head.look()
    head.cluster = replace(CLUSTER, monthly_usd=200.0)
    assert head.look(timedelta(minutes=3)) == []


def test_the_next_month_begins_anew(head: Head) -> None:
    assert head.look() == [ended(EARLY)]
    assert head.look(timedelta(hours=12), usd=0.0) == []
    later = WORDS.replace("01-31T12:02", "02-01T12:02")
    assert head.look(timedelta(hours=24)) == [ended(EARLY, words=later)]


def test_what_slurm_refuses_is_tried_again(head: Head) -> None:
    head.refuses = EARLY
    assert head.look() == []
    head.refuses = ""
    assert head.look(timedelta(seconds=5)) == [ended(EARLY)]
