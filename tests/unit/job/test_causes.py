"""Why nodes do not start, from the records of the head node's programs and from Slurm."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from gpucluster_node import ec2
from gpucluster_node import slurm as node_slurm
from gpucluster_node.power import booting, failing, journal

from gpucluster.cli import jobs as jobs_verb
from gpucluster.config import loads
from gpucluster.following import causes, why
from gpucluster.head import queue, slurm
from gpucluster.head.remote import Completed
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand

LINE = "%s|%s|%s|2|%s|0:00|1:00|x|N/A|digits|%s"
ICE = "InsufficientInstanceCapacity: no g5.12xlarge in us-east-1a (g5.12xlarge); the head node retries every 15 s"


def ago(minutes: float) -> datetime:
    """Seen from now: the file may have been collected long before its tests run."""
    return datetime.now(UTC) - timedelta(minutes=minutes)


class Head:
    """Runs the client's commands for the head node, with files of the node programs in a folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.ran = root, list[str]()
        (root / "bin").mkdir()
        self.restarts = 0
        self.sinfo("")

    def _program(self, name: str, text: str) -> None:
        (self.root / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.root / "bin" / name).chmod(0o755)

    def sinfo(self, text: str) -> None:
        self._program("sinfo", f"cat <<'END'\n{text}END")

    def run(self, argv: Sequence[str]) -> Completed:
        self.ran.append(argv[0])
        # squeue pads a number to its width on the right (print.c: _print_int)
        self._program(
            "squeue", f'[ "$*" = "--noheader --jobs=7 --Format=RestartCnt:10" ] && echo "{self.restarts:<10}"'
        )
        self._program("scontrol", 'echo "$3" | tr , "\\n"')
        words = [word.replace("/run/gpucluster", str(self.root / "run")) for word in argv]
        path = f"{self.root}/bin:/usr/bin:/bin"
        done = subprocess.run(["env", f"PATH={path}", *words], capture_output=True, text=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def job(job_id: str, state: str, nodes: str = "", reason: str = "None", partition: str = "train") -> slurm.Job:
    (found,) = queue.parse_jobs(LINE % (job_id, state, partition, nodes, reason))
    return found


def boots(head: Head, **minutes: int) -> None:
    """node -> since how many minutes it boots, as reconcile writes it."""
    names = {key.replace("_", "-"): age for key, age in minutes.items()}
    states = frozenset({"ALLOCATED", "POWERING_UP"})
    newest = {name: ec2.Instance(f"i-{name}", "running", None, ago(age), name, None) for name, age in names.items()}
    nodes = [node_slurm.Node(name, states) for name in names]
    booting.write(booting.booting(nodes, newest), head.root / "run/booting.json")


def test_a_launch_that_waits_for_capacity_is_named_while_it_does(head: Head) -> None:
    record = journal.Journal(head.root / "run/launching").open(["train-1", "train-2", "train-3"])
    starting = job("7", "CONFIGURING", "train-1,train-2")
    assert causes.of(head, starting) == []
    record.waits(["train-1", "train-2"], ICE)
    assert causes.of(head, starting) == [f"EC2 has not launched train-1, train-2 yet: {ICE}"]
    assert causes.of(head, job("8", "CONFIGURING", "train-3")) == []
    record.done(["train-1"])
    assert causes.of(head, starting) == [f"EC2 has not launched train-2 yet: {ICE}"]
    record.close()
    assert causes.of(head, starting) == []


def test_a_boot_that_takes_long_is_named(head: Head) -> None:
    boots(head, train_1=4, train_2=6)
    (said,) = causes.of(head, job("7", "CONFIGURING", "train-1,train-2"))
    assert re.fullmatch(r"train-2 has not joined: its instance i-train-2 was launched at \d\d:\d\d:\d\d UTC", said)


def test_a_node_that_has_joined_or_failed_does_not_boot(head: Head) -> None:
    instance = ec2.Instance("i-1", "running", None, ago(0), "train-1", None)
    for states in ({"ALLOCATED"}, {"DOWN", "POWERING_UP"}, {"IDLE", "POWERED_DOWN"}):
        assert booting.booting([node_slurm.Node("train-1", frozenset(states))], {"train-1": instance}) == {}


def test_a_partial_file_gives_no_cause(head: Head) -> None:
    boots(head, train_1=6)
    path = head.root / "run/booting.json"
    path.write_text(path.read_text()[:20])
    assert causes.of(head, job("7", "CONFIGURING", "train-1")) == []


SINFO = f"""\
train-1|train*|down#|x|{ICE}
train-2|train*|down#|x|{ICE}
train-3|train*|idle|x|none
ps-1|ps|down*|x|step=mpi line=5: no mpirun; next try in 300 s
"""


@pytest.mark.parametrize("reason", ["(BeginTime)", "ReqNodeNotAvail, UnavailableNodes:train-1", "Resources"])
def test_a_pending_job_shows_the_nodes_out_of_service(head: Head, reason: str) -> None:
    head.sinfo(SINFO)
    assert causes.of(head, job("7", "PENDING", reason=reason)) == [f"train-1, train-2: {ICE}"]
    both = causes.of(head, job("7", "PENDING", reason=reason, partition="train,ps"))
    assert both[1] == "ps-1: step=mpi line=5: no mpirun; next try in 300 s"


def test_no_query_for_jobs_that_do_not_wait_for_nodes(head: Head) -> None:
    jobs = [job("1", "RUNNING", "train-1"), job("2", "PENDING", reason="Dependency"), job("3", "COMPLETED")]
    assert causes.of_all(head, jobs) == {}
    assert head.ran == []


def test_many_jobs_are_asked_for_together(head: Head) -> None:
    record = journal.Journal(head.root / "run/launching").open(["train-1", "train-2"])
    record.waits(["train-1"], "RequestLimitExceeded: slow; the head node retries within 30 s")
    jobs = [job(str(n), "CONFIGURING", f"train-{n}") for n in (1, 2)] + [job("3", "PENDING", reason="BeginTime")]
    found = causes.of_all(head, jobs)
    assert found["1"] == [
        "EC2 has not launched train-1 yet: RequestLimitExceeded: slow; the head node retries within 30 s"
    ]
    assert (found["2"], found["3"]) == ([], [])
    assert head.ran == ["sh", "sinfo"]
    rows = {row["job_id"]: row["reason"] for row in jobs_verb.merged(jobs, [], found)}
    assert rows == {"1": found["1"][0], "2": "", "3": "its begin time, by the cluster's clock, has not come"}
    record.close()


def test_why_prints_the_cause_first() -> None:
    starting = job("7", "CONFIGURING", "train-1")
    assert list(why.waiting(starting, [], None, ["EC2 has not launched it"])) == [
        "job 7 is starting on train-1",
        "EC2 has not launched it",
    ]


@pytest.mark.parametrize(
    ("state", "minutes", "told"), [("RUNNING", 14, True), ("RUNNING", 0.5, False), ("PENDING", 14, False)]
)
def test_a_log_that_does_not_grow_is_named(head: Head, state: str, minutes: float, told: bool) -> None:
    log, then = head.root / "log.txt", ago(minutes)
    log.write_text("[0 train-1] step 1\n[3 train-2] step 2 of 9\n[launcher] a warning\n")
    os.utime(log, (then.timestamp(), then.timestamp()))
    expected = [
        f"its log has not grown for {minutes:.0f} min, since {then:%H:%M:%S} UTC",
        "the last line of a rank: [3 train-2] step 2 of 9",
    ]
    assert causes.quiet(head, job("7", state, "train-1"), str(head.root))[:2] == expected * told
    assert causes.quiet(head, job("7", "RUNNING", "train-1"), str(head.root / "none")) == []


@pytest.mark.parametrize("element", ["", "3"])
def test_the_time_after_which_a_job_that_hangs_ends_is_named(head: Head, element: str) -> None:
    """With the script that `submit` writes; an array's element has it in the folder above."""
    partition = "{name: train, instance_types: [g5.12xlarge], max_nodes: 4}"
    layout = expand(loads(f"name: Test\nregion: us-east-1\npartitions: [{partition}]\n"))
    spec = load(layout, flags={"command": ("true",), "hang_timeout": "90m"})
    (head.root / "job.sbatch").write_text(SbatchRequest.from_spec(spec, layout, "/jobs/j").materialize())
    log = head.root / element / "log.txt"
    log.parent.mkdir(exist_ok=True)
    log.touch()
    os.utime(log, (ago(30).timestamp(),) * 2)
    said = causes.quiet(head, job("7", "RUNNING", "train-1"), str(log.parent))
    assert "hang_timeout ends the job if for 1:30:00 no rank prints a line or writes a file" in said


def test_a_job_that_starts_again_hears_which_node_failed(head: Head) -> None:
    """The file as the head node's program writes it."""
    watch = failing.Watch(head.root / "run/failures.json")
    launched = ec2.Instance("i-1", "running", None, ago(9), "train-2", None, instance_type="g5.12xlarge")
    other = ec2.Instance("i-2", "running", None, ago(9), "other-1", None, instance_type="g5.12xlarge")
    since = ago(1).astimezone().replace(tzinfo=None)
    names, drained = ("train-2", "other-1"), frozenset({"DRAIN"})
    ill = [node_slurm.Node(name, drained, "health: GPU 3 is lost", since) for name in names]
    watch.look(ill, {"train-2": launched, "other-1": other}, ago(1))
    starts = job("7", "CONFIGURING", "train-3,train-4")
    assert causes.of(head, starts) == [], "it starts for the first time"
    head.restarts = 1
    (said,) = causes.of(head, starts)
    assert re.fullmatch(r"train-2 failed at \d\d:\d\d:\d\d UTC and is replaced: health: GPU 3 is lost", said)
    launches = causes.parse([(head.root / "run/failures.json").read_text()])
    requeued = ["Restarts=0", "Restarts=2", "train-3"]  # an array's elements
    assert list(causes.starting(requeued, launches, ago(0)))
    assert not list(causes.starting(requeued, launches, ago(-20))), "that is long ago"
