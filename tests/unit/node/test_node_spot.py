"""A spot node at EC2's notices. The documents are those of EC2's guide, spot-instance-termination-notices."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError

import pytest
from gpucluster_node import ends, imds, slurm
from gpucluster_node.notices import spot

END = datetime(2017, 9, 18, 8, 22, tzinfo=UTC)
NOTICE = '{"action": "terminate", "time": "2017-09-18T08:22:00Z"}'
REBALANCE = '{"noticeTime": "2020-10-27T08:22:00Z"}'
WORDS = "spot: EC2 will terminate it at 2017-09-18T08:22:00Z"
DOWN = ["scontrol", "update", "nodename=train-2", "state=power_down_asap", f"reason={WORDS}"]


class Node:
    """Its metadata, and Slurm."""

    def __init__(self, folder: Path) -> None:
        self.metadata: dict[str, str] = {}
        self.jobs: list[tuple[str, int, str, str]] = []
        self.first_part: dict[str, str] = {}
        self.folder, self.ran, self.refuses = folder, list[list[str]](), ""
        self.queue: list[tuple[str, str]] = []
        """Partition and state of each job."""
        self.looks = 0
        """How often it asks Slurm whether a job has the node or may get it."""
        self.shown: dict[str, str] = {}
        """What scontrol shows of a job."""
        self.asked: list[list[str]] = []
        """What it runs, and what Slurm refuses, in all looks."""
        self.watch = spot.Watch("train-2", self.metadata.get, always_on=["train-1"])

    def job(self, job_id: str, *options: str, restarts: int = 0, state: str = "RUNNING") -> None:
        script = self.folder / f"{job_id}.sbatch"
        script.write_text("".join(["#!/bin/bash\n", *(f"#SBATCH {option}\n" for option in options), "exec true\n"]))
        self.jobs.append((job_id, restarts, state, str(script)))

    def run(self, argv: Sequence[str]) -> str:
        if argv == slurm.jobs_argv("%P %T", "--array"):
            self.looks += 1
            return "".join(f"{partition} {state}\n" for partition, state in self.queue)
        if argv == slurm.jobs_argv("%i %T", "--nodelist=train-2"):
            self.looks += 1
            return "".join(f"{job} {state}\n" for job, _, state, _ in self.jobs)
        if argv[-1] == "--Format=AdminComment:40":
            return self.shown.get(argv[2].removeprefix("--jobs="), "")
        if argv[0] == "squeue":
            assert "--nodelist=train-2" in argv
            return "".join(
                f"{job:<12}|{self.first_part.get(job, 'N/A'):<12}|{job:<12}|{'N/A':<12}|"
                f"{n:<4}|{state:<14}|{'train-2':<4000}|{script:<4000}|\n"
                for job, n, state, script in self.jobs
            )
        self.asked.append(list(argv))
        if self.refuses and self.refuses in argv:
            raise slurm.SlurmError("not now")
        self.ran.append(list(argv))
        return ""

    def look(self, before_s: float) -> list[list[str]]:
        """What it runs at a look so long before the end."""
        self.ran = []
        self.watch.look(END - timedelta(seconds=before_s))
        return self.ran


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    monkeypatch.setattr(slurm, "call", made.run)
    return made


def comment(job_id: str, run: int = 0) -> list[str]:
    return ["scontrol", "update", f"jobid={job_id}", f"admincomment=run {run}: train-2 was lost: {WORDS}"]


def test_without_a_notice_nothing_happens(node: Node) -> None:
    node.job("7")
    assert node.look(600) == []


def test_a_job_gets_its_signal_at_once_and_is_requeued_before_the_end(node: Node) -> None:
    node.job("7", "--signal=B:USR1@60")
    node.job("8", restarts=2)
    node.metadata[spot.END] = NOTICE
    commands = [DOWN, comment("7"), ["scancel", "--batch", "--signal=USR1", "7"], comment("8", 2)]
    assert node.look(118) == commands
    assert node.look(113) == [], "once"
    assert node.look(40) == [["scontrol", "requeue", "incomplete", "7"], ["scontrol", "requeue", "incomplete", "8"]]
    assert node.look(35) == [], "once"


def test_a_job_that_another_node_has_signalled_gets_no_second_signal(node: Node) -> None:
    node.job("7", "--signal=B:USR1@60", restarts=1)
    node.metadata[spot.END] = NOTICE
    node.shown["7"] = "run 1: train-1 was lost: spot: …         \n"
    assert node.look(118) == [DOWN]
    assert node.look(40) == [["scontrol", "requeue", "incomplete", "7"]]
    node.shown["7"] = node.shown["7"].replace("run 1", "run 0")
    assert comment("7", 1) in node.look(38), "the comment of an earlier run does not count"


def test_an_elastic_job_is_not_requeued(node: Node) -> None:
    node.job("7", "--no-kill")
    node.metadata[spot.END] = NOTICE
    assert node.look(118) == [DOWN, comment("7")]
    assert node.look(20) == []


def test_jobs_that_are_not_running_are_ignored(node: Node) -> None:
    node.job("7", state="COMPLETING")
    node.job("8", state="CONFIGURING")
    node.metadata[spot.END] = NOTICE
    assert node.look(20) == [DOWN]


def test_a_call_that_slurm_refuses_is_retried(node: Node) -> None:
    node.job("7")
    node.metadata[spot.END], node.refuses = NOTICE, "state=power_down_asap"
    with pytest.raises(slurm.SlurmError):
        node.look(118)
    node.refuses = ""
    assert node.look(113) == [DOWN, comment("7")]


@pytest.mark.parametrize("refused", ["--signal=USR1", "7"], ids=["its signal", "its signal and to be requeued"])
def test_a_refusal_for_one_job_does_not_affect_the_others(node: Node, refused: str) -> None:
    node.job("7", "--signal=B:USR1@60")
    node.job("8")
    node.metadata[spot.END], node.refuses = NOTICE, refused
    assert comment("8") in node.look(118)
    assert ["scontrol", "requeue", "incomplete", "8"] in node.look(40)
    for before_s in range(35, -60, -5):
        node.look(before_s)
    assert node.asked.count(["scancel", "--batch", "--signal=USR1", "7"]) == 1, "it may have got it"
    assert node.asked.count(["scontrol", "requeue", "incomplete", "7"]) == (ends.TRIES if refused == "7" else 1), (
        "not for ever"
    )
    assert node.asked.count(["scontrol", "requeue", "incomplete", "8"]) == 1


def test_a_call_to_a_busy_slurm_is_retried(node: Node) -> None:
    node.job("7")
    node.metadata[spot.END], node.refuses = NOTICE, "requeue"
    node.look(40)
    node.refuses = ""
    assert node.look(35) == [["scontrol", "requeue", "incomplete", "7"]]


def test_the_first_part_of_a_heterogeneous_job_gets_the_signal_and_is_requeued(node: Node) -> None:
    node.job("8", "--signal=B:USR1@60")
    node.first_part["8"] = "7"
    node.metadata[spot.END] = NOTICE
    assert node.look(118) == [DOWN, comment("7"), ["scancel", "--batch", "--signal=USR1", "7"]]
    assert node.look(40) == [["scontrol", "requeue", "incomplete", "7"]]


def test_a_shell_has_no_script(node: Node) -> None:
    node.jobs.append(("9", 0, "RUNNING", "(null)"))
    node.metadata[spot.END] = NOTICE
    assert node.look(118) == [DOWN, comment("9")]


REBALANCED = [
    "scontrol",
    "update",
    "nodename=train-2",
    "state=power_down_asap",
    "reason=spot: EC2 recommends to rebalance: it may terminate this node soon",
]


def test_a_rebalance_recommendation_powers_an_idle_node_down(node: Node) -> None:
    node.metadata[spot.REBALANCE] = REBALANCE
    assert node.look(600) == [REBALANCED]
    assert node.look(500) == [], "once"
    node.job("7")
    node.metadata[spot.END] = NOTICE
    assert node.look(118)[0] == DOWN, "the reason is the newer one"


@pytest.mark.parametrize("state", ["CONFIGURING", "RUNNING", "COMPLETING"])
def test_at_a_rebalance_recommendation_the_node_stays_while_a_job_has_it(node: Node, state: str) -> None:
    node.metadata[spot.REBALANCE] = REBALANCE
    node.job("7", state=state)
    assert node.look(600) == [] == node.look(500)
    node.jobs.clear()
    assert node.look(400) == [REBALANCED]


@pytest.mark.parametrize("waiting", [("train", "PENDING"), ("big,train", "PENDING")])
def test_at_a_rebalance_recommendation_the_node_stays_while_a_job_may_want_it(
    node: Node, waiting: tuple[str, str]
) -> None:
    """A new instance in its place might get the same recommendation."""
    node.metadata[spot.REBALANCE] = REBALANCE
    node.queue.append(waiting)
    assert node.look(600) == []
    node.queue[:] = [("train", "RUNNING"), ("train", "COMPLETED"), ("train2", "PENDING")]
    assert node.look(500) == [REBALANCED]


def test_at_a_rebalance_recommendation_slurm_is_asked_once_a_minute(node: Node) -> None:
    """EC2 may recommend it to hundreds of nodes at the same time, whose jobs run for days."""
    node.metadata[spot.REBALANCE] = REBALANCE
    node.job("7")
    for before_s in range(600, 480, -5):
        node.look(before_s)
    assert node.looks == 2


def test_a_node_that_is_always_on_stays_at_a_rebalance_recommendation(node: Node) -> None:
    node.watch = spot.Watch("train-2", node.metadata.get, always_on=["train-1", "train-2"])
    node.metadata[spot.REBALANCE] = REBALANCE
    assert node.look(600) == []
    node.metadata[spot.END] = NOTICE
    assert node.look(118) == [DOWN]


@pytest.mark.parametrize(("code", "found"), [(404, None), (401, HTTPError)])
def test_a_notice_that_is_not_there(monkeypatch: pytest.MonkeyPatch, code: int, found: object) -> None:
    def answer(path: str) -> str:
        raise HTTPError(path, code, "", Message(), io.BytesIO())

    monkeypatch.setattr(imds, "ask", answer)
    if found is None:
        assert spot.read(spot.END) is None
    else:
        with pytest.raises(HTTPError):
            spot.read(spot.END)
