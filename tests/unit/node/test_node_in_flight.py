"""Nodes that ResumePrograms are launching: what each program records, and what is done when one is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node import ec2, fleet, slurm, states
from gpucluster_node.power import again, in_flight, reconcile

BOOTSTRAP = Path(in_flight.__file__).parents[2]
START = datetime(2026, 11, 22, 12, 0, 0)
CLUSTER = fleet.Fleet("c", "c.internal", "/gpucluster/c/", (fleet.Partition("train", 0, 1000, "on-demand"),))
JOBS = [{"job_id": 7, "nodes_resume": "train-[1-3]"}]


def booting(name: str) -> slurm.Node:
    return slurm.Node(name, frozenset({"ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"}))


def test_a_killed_programs_nodes_are_found_once(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from gpucluster_node.power import in_flight;"
        "record = in_flight.Record(['train-1', 'train-2', 'train-3'], pathlib.Path(sys.argv[1]), [{'job_id': 7}]);"
        "record.done(['train-2']); print('ready', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(BOOTSTRAP)}
    argv = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        assert in_flight.nodes(tmp_path) == {"train-1", "train-3"}
        assert in_flight.killed(tmp_path) == []
        program.kill()
    assert in_flight.nodes(tmp_path) == frozenset()
    (left,) = in_flight.killed(tmp_path)
    assert (left["nodes"], left["jobs"], left["again"]) == (["train-1", "train-3"], [{"job_id": 7}], False)
    assert in_flight.killed(tmp_path) == []
    assert list(tmp_path.glob("*.json")) == []


def test_a_killed_programs_launch_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Slurm's list of jobs, so that a job's nodes are launched together; each file is for one program."""
    started: list[tuple[list[str], Any]] = []

    def popen(argv: list[str], env: dict[str, str]) -> None:
        started.append((argv[1:], json.loads(Path(env["SLURM_RESUME_FILE"]).read_text())))

    monkeypatch.setattr(again, "FILE", tmp_path / "again.json")
    monkeypatch.setattr(again.subprocess, "Popen", popen)
    off = slurm.Node("train-3", frozenset({"IDLE", "CLOUD", "POWERED_DOWN"}))
    named = ec2.Instance("i-4", "pending", None, START.replace(tzinfo=UTC), "train-4", None)
    killed = [{"nodes": ["train-1", "train-2", "train-3", "train-4"], "jobs": JOBS, "again": False}]
    nodes = [booting("train-1"), booting("train-2"), off, booting("train-4"), booting("train-5")]
    again.start(killed, nodes, {"train-4": named})
    assert started == [(["-m", "gpucluster_node.power.resume", "train-1,train-2", "again"], {"jobs": JOBS})]


def test_one_program_repeats_the_launches_of_all_killed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed program may have launched the nodes of many others, and the kernel kills programs if memory is short."""
    started: list[Any] = []
    monkeypatch.setattr(again, "launch", lambda nodes, jobs: started.append((nodes, jobs)))
    killed = [
        {"nodes": ["train-1"], "jobs": JOBS, "again": False},
        {"nodes": ["train-2"], "jobs": [{"job_id": 8}], "again": False},
        {"nodes": ["train-3"], "jobs": [{"job_id": 9}], "again": True},
    ]
    again.start(killed, [booting(f"train-{number}") for number in (1, 2, 3)], {})
    assert started == [(["train-1", "train-2"], [*JOBS, {"job_id": 8}])]


def test_a_repeated_launch_waits_until_the_killed_programs_instance_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program was killed between RunInstances and the instance's name. While the launch was repeated, reconcile
    would spare the instance, and a Capacity Block of one instance would be full."""
    started: list[Any] = []
    monkeypatch.setattr(again, "launch", lambda nodes, jobs: started.append(nodes))
    nodes, seen, repeats = [booting("train-1")], reconcile.Seen(), again.Repeats()
    killed = [{"nodes": ["train-1"], "jobs": JOBS, "again": False}]
    left = [ec2.Instance("i-1", "pending", "10.0.0.1", START.replace(tzinfo=UTC), None, None)]
    for seconds in range(0, 90, 5):
        repeats.look(killed, nodes, {}, left, launching=())
        killed = []
        now = START + timedelta(seconds=seconds)
        launching, calling = (["train-1"], START.replace(tzinfo=UTC)) if started else ([], None)
        actions = reconcile.decide(CLUSTER, nodes, left, seen, now, launching=launching, calling=calling)
        assert "down" not in [action.verb for action in actions], f"after {seconds} s"
        if any(action.verb == "terminate" for action in actions):
            assert not started
            left = []
    assert (left, started) == ([], [["train-1"]])


def test_a_repeated_launch_does_not_wait_for_another_programs_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(again, "launch", lambda nodes, jobs: started.append(nodes))
    killed = [{"nodes": ["train-1"], "jobs": JOBS, "again": False}]
    new = [ec2.Instance("i-2", "pending", "10.0.0.2", START.replace(tzinfo=UTC), None, None)]
    again.Repeats().look(killed, [booting("train-1")], {}, new, launching=["train-2"])
    assert started == [["train-1"]]


def test_a_program_that_is_killed_twice_is_left_to_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "launch", lambda nodes, jobs: pytest.fail("a third launch"))
    again.start([{"nodes": ["train-1"], "jobs": JOBS, "again": True}], [booting("train-1")], {})
    seen, nodes = reconcile.Seen(), [booting("train-1")]
    assert reconcile.decide(CLUSTER, nodes, [], seen, START) == []
    (action,) = reconcile.decide(CLUSTER, nodes, [], seen, START + states.LAUNCH_GRACE)
    assert (action.verb, action.name) == ("down", "train-1")


def test_nodes_of_another_program_are_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = iter((1, 2, 3))
    monkeypatch.setattr(in_flight.os, "getpid", lambda: next(pids))
    first = in_flight.Record(["train-1", "train-2"], tmp_path)
    second = in_flight.Record(["train-2", "train-3"], tmp_path)
    assert (first.mine, second.mine) == (["train-1", "train-2"], ["train-3"])
    first.close()
    assert in_flight.nodes(tmp_path) == {"train-3"}
    third = in_flight.Record(["train-2"], tmp_path)
    assert third.mine == ["train-2"]
    for record in (second, third):
        record.close()


def test_marks_of_several_programs_are_separate(tmp_path: Path) -> None:
    assert in_flight.nodes(tmp_path / "none") == frozenset()
    record = in_flight.Record(["train-1", "train-2"], tmp_path)
    (tmp_path / "1.json").write_text('["train-9"]')
    assert in_flight.nodes(tmp_path) == {"train-1", "train-2"}
    record.done(["train-1"])
    assert in_flight.nodes(tmp_path) == {"train-2"}
    record.close()
    assert in_flight.nodes(tmp_path) == frozenset()


@pytest.mark.parametrize(
    ("launching", "calling", "ended"),
    [({"train-7"}, START, []), ({"train-7"}, None, ["i-1"]), (set(), None, ["i-1"])],
    ids=["may be its instance", "waits for capacity or a limit", "no program"],
)
def test_unnamed_instances_are_terminated_only_while_no_launch_is_called_for(
    launching: set[str], calling: datetime | None, ended: list[str]
) -> None:
    """Launches may wait for hours one after another."""
    unnamed = [ec2.Instance("i-1", "pending", None, START.replace(tzinfo=UTC), None, None)]
    seen, called = reconcile.Seen(), calling.replace(tzinfo=UTC) if calling else None
    for now in (START, START + timedelta(hours=1)):
        later = reconcile.decide(CLUSTER, [], unnamed, seen, now, launching=launching, since=called, calling=called)
    assert [action.name for action in later] == ended


def test_a_program_says_whether_it_calls_for_launches(tmp_path: Path) -> None:
    """Its groups call side by side."""
    record = in_flight.Record(["train-1", "train-2"], tmp_path)
    assert in_flight.calling(tmp_path) is None
    with record.calling():
        began = in_flight.calling(tmp_path)
        with record.calling():
            record.waits(["train-1"], "no capacity")
        assert began is not None and in_flight.calling(tmp_path) == began
    assert in_flight.calling(tmp_path) is None
    with suppress(RuntimeError), record.calling():
        raise RuntimeError
    assert in_flight.calling(tmp_path) is None and in_flight.nodes(tmp_path) == {"train-1", "train-2"}
    record.close()


def test_an_unnamed_instance_older_than_every_call_is_terminated(tmp_path: Path) -> None:
    """Programs follow one another on a busy cluster: one of them may always run."""
    assert in_flight.since(tmp_path) is None
    (tmp_path / "1.json").write_text("stale")
    before = datetime.now(UTC)
    record = in_flight.Record(["train-7", "train-8"], tmp_path)
    record.done(["train-8"])
    began = in_flight.since(tmp_path)
    assert began is not None and before <= began <= datetime.now(UTC)
    old, new = (
        ec2.Instance(name, "pending", None, began + timedelta(seconds=seconds), None, None)
        for name, seconds in (("i-old", -120), ("i-new", 1))
    )
    seen = reconcile.Seen()
    for minutes in (0, 2):
        now = START + timedelta(minutes=minutes)
        actions = reconcile.decide(
            CLUSTER, [], [old, new], seen, now, launching=["train-7"], since=began, calling=began
        )
    assert [(action.verb, action.name) for action in actions] == [("terminate", "i-old")]
    record.close()
    assert in_flight.since(tmp_path) is None
