"""Nodes that ResumePrograms are launching: what each program records, and what is done when one is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gpucluster_node import ec2, fleet, slurm, states
from gpucluster_node.power import again, asked, in_flight, reconcile
from gpucluster_node.power.words import Snapshot

BOOTSTRAP = Path(in_flight.__file__).parents[2]
START = datetime(2026, 11, 22, 12, 0, 0)
CLUSTER = fleet.Fleet("c", "c.internal", "/gpucluster/c/", (fleet.Partition("train", 0, 1000, "on-demand"),))
JOBS = [{"job_id": 7, "nodes_resume": "train-[1-3]"}]


def booting(name: str) -> slurm.Node:
    return slurm.Node(name, frozenset({"ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"}))


def test_a_killed_programs_nodes_are_found_until_they_are_launched_again(tmp_path: Path) -> None:
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
        assert in_flight.killed(tmp_path) == {}
        program.kill()
    assert in_flight.nodes(tmp_path) == frozenset()
    found = in_flight.killed(tmp_path)
    (left,) = found.values()
    assert (left["nodes"], left["jobs"], left["again"]) == (["train-1", "train-3"], [{"job_id": 7}], False)
    assert in_flight.killed(tmp_path) == found, "reconcile may be restarted before it repeats the launch"
    in_flight.forget(found)
    assert in_flight.killed(tmp_path) == {}


def test_a_killed_programs_launch_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Slurm's list of jobs, so that a job's nodes are launched together; each file is for one program. A restart
    of reconcile's unit does not end the program: it has one of its own."""
    started: list[tuple[list[str], Any]] = []

    def run(argv: list[str], **options: Any) -> None:
        started.append((argv, json.loads(Path(argv[-1]).read_text())))

    monkeypatch.setattr(again, "FOLDER", tmp_path)
    monkeypatch.setattr(again.subprocess, "run", run)
    off = slurm.Node("train-3", frozenset({"IDLE", "CLOUD", "POWERED_DOWN"}))
    named = ec2.Instance("i-4", "pending", None, START.replace(tzinfo=UTC), "train-4", None)
    killed = [{"nodes": ["train-1", "train-2", "train-3", "train-4"], "jobs": JOBS, "again": False}]
    nodes = [booting("train-1"), booting("train-2"), off, booting("train-4"), booting("train-5")]
    again.start(killed, nodes, {"train-4": named})
    ((argv, wanted),) = started
    assert argv[0] == "systemd-run" and argv[-3:-1] == ["/opt/gpucluster/bin/node-program", "power.resume"]
    assert wanted == {"nodes": ["train-1", "train-2"], "jobs": JOBS, "asked": []}


def test_one_program_repeats_the_launches_of_all_killed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed program may have launched the nodes of many others, and the kernel kills programs if memory is short."""
    started: list[Any] = []
    monkeypatch.setattr(again, "launch", lambda wanted: started.append((wanted["nodes"], wanted["jobs"])))
    killed = [
        {"nodes": ["train-1"], "jobs": JOBS, "again": False},
        {"nodes": ["train-2"], "jobs": [{"job_id": 8}], "again": False},
        {"nodes": ["train-3"], "jobs": [{"job_id": 9}], "again": True},
    ]
    again.start(killed, [booting(f"train-{number}") for number in (1, 2, 3)], {})
    assert started == [(["train-1", "train-2"], [*JOBS, {"job_id": 8}])]


KILLED = {"nodes": ["train-1"], "jobs": JOBS, "again": False}


def test_a_repeated_launch_waits_until_the_killed_programs_instance_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program was killed between RunInstances and the instance's name. While the launch was repeated, reconcile
    would spare the instance, and a Capacity Block of one instance would be full."""
    started: list[Any] = []
    monkeypatch.setattr(again, "launch", lambda wanted: started.append(wanted["nodes"]))
    nodes, seen = [booting("train-1")], reconcile.Seen()
    killed = {tmp_path / "1.json": KILLED}
    left = [ec2.Instance("i-1", "pending", "10.0.0.1", START.replace(tzinfo=UTC), None, None)]
    for seconds in range(0, 90, 5):
        again.look({} if started else killed, nodes, {}, left, launching=())
        now = START + timedelta(seconds=seconds)
        launching = ["train-1"] if started else []
        actions = reconcile.decide(Snapshot(CLUSTER, nodes, left, now, launching=launching), seen)
        assert "down" not in [action.verb for action in actions], f"after {seconds} s"
        if any(action.verb == "terminate" for action in actions):
            assert not started
            left = []
    assert (left, started) == ([], [["train-1"]])


@pytest.mark.parametrize(
    ("launching", "asked"),
    [(["train-2"], []), ([], [{"token": "t"}])],
    ids=["another program's instance", "the repeated call gives it its name"],
)
def test_a_repeated_launch_does_not_wait_for_an_instance_that_gets_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launching: list[str], asked: list[Any]
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(again, "launch", lambda wanted: started.append((wanted["nodes"], wanted["asked"])))
    new = [ec2.Instance("i-2", "pending", "10.0.0.2", START.replace(tzinfo=UTC), None, None)]
    again.look({tmp_path / "1.json": KILLED | {"asked": asked}}, [booting("train-1")], {}, new, launching)
    assert started == [(["train-1"], asked)]


def test_a_launch_is_repeated_later_if_systemd_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(argv: list[str], **options: Any) -> None:
        raise subprocess.CalledProcessError(1, argv)

    monkeypatch.setattr(again, "FOLDER", tmp_path)
    monkeypatch.setattr(again.subprocess, "run", refuse)
    file = tmp_path / "1.json"
    file.touch()
    again.look({file: KILLED}, [booting("train-1")], {}, [], ())
    assert list(tmp_path.iterdir()) == [file]
    monkeypatch.setattr(again.subprocess, "run", lambda argv, **options: None)
    again.look({file: KILLED}, [booting("train-1")], {}, [], ())
    assert not file.exists()


def test_a_program_that_is_killed_twice_is_left_to_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "launch", lambda wanted: pytest.fail("a third launch"))
    again.start([{"nodes": ["train-1"], "jobs": JOBS, "again": True}], [booting("train-1")], {})
    seen, nodes = reconcile.Seen(), [booting("train-1")]
    assert reconcile.decide(Snapshot(CLUSTER, nodes, [], START), seen) == []
    (action,) = reconcile.decide(Snapshot(CLUSTER, nodes, [], START + states.LAUNCH_GRACE), seen)
    assert (action.verb, action.name) == ("down", "train-1")


def test_nodes_of_another_program_are_left_to_it(tmp_path: Path) -> None:
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
    (tmp_path / "1.json").write_text("stale")
    record = in_flight.Record(["train-1", "train-2", "train-3"], tmp_path)
    assert in_flight.tokens(tmp_path) == frozenset()
    template = fleet.LaunchTemplate("a", "lt-a", "1")
    pair = asked.Call("pair", template, 2, 2, ("train-1", "train-2"))
    record.asked(pair)
    record.asked(replace(pair, token="refused", nodes=("train-3",)))
    record.waits(["train-1"], "no capacity")
    assert in_flight.tokens(tmp_path) == {"pair", "refused"}
    record.asked(replace(pair, token="refused", nodes=()))
    record.done(["train-1"])
    assert in_flight.tokens(tmp_path) == {"pair"}
    record.done(["train-2"])
    assert in_flight.tokens(tmp_path) == frozenset() and in_flight.nodes(tmp_path) == {"train-3"}
    record.close()
