"""Launches that are under way: what the journal records, and what becomes of them when the daemon is killed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import ec2, fleet, slurm, states
from gpucluster_node.power import journal, last_launches, reconcile, resume, spool
from gpucluster_node.power.observation import Snapshot

START = datetime(2026, 11, 22, 12, 0, 0)
CLUSTER = fleet.Fleet("c", "c.internal", "/gpucluster/c/", (fleet.Partition("train", 0, 1000, "on-demand"),))
JOBS = [{"job_id": 7, "nodes_resume": "train-[1-3]"}]


def booting(name: str) -> slurm.Node:
    return slurm.Node(name, frozenset({"ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"}))


def test_a_killed_daemons_launches_are_found_until_they_are_completed(tmp_path: Path) -> None:
    """With Slurm's list of jobs, so that a job's nodes are launched together."""
    book = journal.Journal(tmp_path)
    record = book.open(["train-1", "train-2", "train-3"], JOBS)
    record.done(["train-2"])
    record.waits(["train-1"], "no capacity")
    assert book.nodes() == {"train-1", "train-3"}
    for replays in (1, 2):
        book = journal.Journal(tmp_path)
        (found,) = book.reopen()
        assert (found.mine, found.jobs, found.replays) == (["train-1", "train-3"], JOBS, replays)
        assert book.nodes() == {"train-1", "train-3"}, "the daemon may be killed again before it completes them"
        (path,) = tmp_path.glob("*.json")
        assert json.loads(path.read_text())["waits"] == {"train-1": "no capacity"}, "users read it meanwhile, too"
    found.close()
    assert journal.Journal(tmp_path).reopen() == []
    assert book.nodes() == frozenset() and os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    ["", "stale", "[1]", "{}", '{"nodes": ["train-1"]}', '{"nodes": [], "asked": [], "jobs": [], "waits": {}}'],
    ids=["empty", "no JSON", "a list", "no keys", "a part", "no nodes"],
)
def test_a_file_that_is_no_record_stops_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.json").write_text(text)
    (tmp_path / ".2.json.77").write_text('{"nodes": ["tra')
    assert journal.Journal(tmp_path).reopen() == []
    assert os.listdir(tmp_path) == []


def test_the_record_of_an_older_version_is_completed(tmp_path: Path) -> None:
    call = {"token": "t", "template": {"instance_type": "a", "launch_template_id": "lt-a", "version": "1"}}
    old = {"began": "2026-11-28T12:00:00+00:00", "calling": "", "nodes": ["train-1"], "waits": {}, "again": False}
    asked = [{**call, "least": 1, "most": 1, "nodes": ["train-1"]}]
    (tmp_path / "4711-1.json").write_text(json.dumps({**old, "asked": asked, "jobs": JOBS}))
    (found,) = journal.Journal(tmp_path).reopen()
    assert (found.mine, list(found.calls)) == (["train-1"], ["t"])


def launch_again(record: journal.Record, monkeypatch: pytest.MonkeyPatch, shown: list[slurm.Node]) -> list[str]:
    """Returns the nodes that are launched."""
    launched_: list[str] = []
    monkeypatch.setattr(fleet, "load", lambda: CLUSTER)
    monkeypatch.setattr(slurm, "nodes", lambda names: [node for node in shown if node.name in names])
    monkeypatch.setattr(resume.Resume, "one", lambda self, group, calls: launched_.extend(group.nodes))
    resume.launch_again(record)
    return launched_


def test_only_nodes_that_slurm_still_powers_up_are_launched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_launches, "FOLDER", tmp_path / "launched")
    journal.Journal(tmp_path).open(["train-1", "train-2", "train-3"], JOBS)
    book = journal.Journal(tmp_path)
    (record,) = book.reopen()
    off = slurm.Node("train-3", frozenset({"IDLE", "CLOUD", "POWERED_DOWN"}))
    assert launch_again(record, monkeypatch, [booting("train-1"), booting("train-2"), off]) == ["train-1", "train-2"]
    assert book.nodes() == frozenset()


def test_launches_that_kill_the_daemon_each_time_are_left_to_reconcile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_launches, "FOLDER", tmp_path / "launched")
    journal.Journal(tmp_path).open(["train-1"], JOBS)
    for _ in range(resume.MOST_REPLAYS):
        assert len(journal.Journal(tmp_path).reopen()) == 1
    book = journal.Journal(tmp_path)
    (record,) = book.reopen()
    assert launch_again(record, monkeypatch, [booting("train-1")]) == []
    assert book.nodes() == frozenset()
    seen, nodes = reconcile.Seen(), [booting("train-1")]
    assert reconcile.decide(Snapshot(CLUSTER, nodes, [], START), seen) == []
    (action,) = reconcile.decide(Snapshot(CLUSTER, nodes, [], START + states.LAUNCH_GRACE), seen)
    assert (action.verb, action.name) == ("down", "train-1")


def test_nodes_of_another_launch_are_left_to_it(tmp_path: Path) -> None:
    book = journal.Journal(tmp_path)
    first, second = book.open(["train-1", "train-2"]), book.open(["train-2", "train-3"])
    assert (first.mine, second.mine) == (["train-1", "train-2"], ["train-3"])
    first.close()
    assert book.nodes() == {"train-3"}
    assert book.open(["train-2"]).mine == ["train-2"]


def test_a_request_leaves_nodes_that_a_launch_has_completed_since_slurm_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm may ask twice, and the daemon may have been killed between its journal and the removal of the request."""
    monkeypatch.setattr(last_launches, "FOLDER", tmp_path / "launched")
    book, request = journal.Journal(tmp_path), spool.Request(["train-1", "train-2"])
    last_launches.write(
        {"train-2": ec2.Instance("i-1", "pending", "10.0.0.2", START.replace(tzinfo=UTC), "train-2", None)}
    )
    os.utime(tmp_path / "launched/train-2", (request.since + 1, request.since + 1))
    resume.accept(request, book)
    assert book.nodes() == {"train-1"}
    resume.accept(spool.Request(["train-2"], since=request.since + 2), book)
    assert book.nodes() == {"train-1", "train-2"}, "Slurm asks again after that"


@pytest.mark.parametrize(("state", "launches"), [("DOWN", []), ("POWERING_UP", ["train-1"])])
def test_after_a_long_wait_only_nodes_that_slurm_still_powers_up_are_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, launches: list[str]
) -> None:
    """Slurm may have given the node up while the daemon did not run."""
    asked: list[str] = []
    monkeypatch.setattr(last_launches, "FOLDER", tmp_path / "launched")
    monkeypatch.setattr(fleet, "load", lambda: CLUSTER)
    states_ = frozenset({"ALLOCATED", state})
    monkeypatch.setattr(slurm, "nodes", lambda names: [slurm.Node(name, states_) for name in names])
    monkeypatch.setattr(resume.Resume, "one", lambda self, group, calls: asked.extend(group.nodes))
    monkeypatch.setattr(resume, "LATE_S", -1.0)
    resume.accept(spool.Request(["train-1"]), journal.Journal(tmp_path))()
    assert asked == launches


@pytest.mark.parametrize(
    ("launching", "calls", "ended"),
    [({"train-7"}, {"ours"}, []), ({"train-7"}, {"another"}, ["i-1"]), (set(), set(), ["i-1"])],
    ids=["of a call", "waits for capacity or a limit", "no program"],
)
def test_an_unnamed_instance_is_a_launchs_own_by_its_token(
    launching: set[str], calls: set[str], ended: list[str]
) -> None:
    """Launches may wait for hours one after another."""
    unnamed = [replace(ec2.Instance("i-1", "pending", None, START.replace(tzinfo=UTC), None, None), token="ours")]
    seen = reconcile.Seen()
    for now in (START, START + timedelta(hours=1)):
        later = reconcile.decide(Snapshot(CLUSTER, [], unnamed, now, launching=launching, calls=calls), seen)
    assert [action.name for action in later] == ended


def test_a_call_is_recorded_until_its_instances_have_their_names(tmp_path: Path) -> None:
    """Its groups call side by side."""
    book = journal.Journal(tmp_path)
    record = book.open(["train-1", "train-2", "train-3"])
    assert book.tokens() == frozenset()
    template = fleet.LaunchTemplate("a", "lt-a", "1")
    pair = journal.Call("pair", template, 2, 2, ("train-1", "train-2"))
    record.asked(pair)
    record.asked(replace(pair, token="refused", nodes=("train-3",)))
    record.waits(["train-1"], "no capacity")
    assert book.tokens() == {"pair", "refused"}
    record.asked(replace(pair, token="refused", nodes=()))
    record.done(["train-1"])
    assert book.tokens() == {"pair"}
    record.done(["train-2"])
    assert book.tokens() == frozenset() and book.nodes() == {"train-3"}
    record.close()
