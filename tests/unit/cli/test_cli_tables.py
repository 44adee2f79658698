"""How the verbs show jobs and nodes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from gpucluster.cli import cancel, doctor, env, jobs, status
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.reach import ssh
from gpucluster.following.jobs import Past
from gpucluster.head import queue, slurm
from gpucluster.head.remote import Completed

Captured = pytest.CaptureFixture[str]

FAILED = "2|FAILED|train|2|train-[1-2]|0:04|UNLIMITED|x|x|raise|NonZeroExitCode\n"
RESULT = {"exit_code": 1, "failed_rank": 3, "failed_node": "train-1", "reason": "RuntimeError: bad gradient"}


def test_a_failed_job_shows_its_reason_while_slurm_knows_it() -> None:
    (entry,) = jobs.merged(queue.parse_jobs(FAILED), [Past("2", "/jobs/raise-1-2-3", RESULT)])
    assert entry["reason"] == "rank 3 on train-1 exited with code 1: RuntimeError: bad gradient"
    assert entry["elapsed"] == "0:04"


def test_a_job_whose_exports_failed_has_failed_whatever_slurm_says() -> None:
    done, result = FAILED.replace("FAILED", "COMPLETED"), {"exit_code": 74, "reason": "1 of 3 files did not reach S3"}
    (entry,) = jobs.merged(queue.parse_jobs(done), [Past("2", "/jobs/raise-1-2-3", result)])
    assert (entry["state"], entry["reason"]) == ("FAILED", "1 of 3 files did not reach S3")


def test_a_job_that_runs_again_does_not_say_how_its_last_run_ended() -> None:
    running = FAILED.replace("FAILED", "RUNNING")
    (entry,) = jobs.merged(queue.parse_jobs(running), [Past("2", "/jobs/raise-1-2-3", RESULT)])
    assert entry["reason"] == ""


def test_ended_jobs_are_not_reported_as_cancelled(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(cancel, "head", lambda context: nullcontext(None))
    monkeypatch.setattr(cancel.jobs, "require", lambda remote, job_id: None)
    assert cancel.command.main(["8"], standalone_mode=False, obj=CliContext()) == 0
    assert json.loads(capsys.readouterr().out) == {"cancelled": []}


def partition(sinfo: str) -> str:
    nodes = [status._node(node) for node in slurm.parse_nodes(sinfo)]
    return "\n".join(status._partition({"name": "train", "nodes": nodes}))


def test_a_node_in_service_again_is_not_shown_as_drained() -> None:
    text = partition(
        "train-2|train|idle~|2026-11-21T13:39:00|the EC2 instance of this node is gone; next try at once\n"
    )
    expected = "  train-2 is back; it was out of service at 2026-11-21T13:39:00: the EC2 instance of this node is gone"
    assert text.splitlines()[1:] == [expected]


def test_a_node_that_is_down_says_why() -> None:
    text = partition("train-2|train|down|2026-11-21T13:39:00|no capacity; next try in 120 s\n")
    assert text.splitlines()[1:] == ["  train-2 is down since 2026-11-21T13:39:00: no capacity; next try in 120 s"]


def test_one_node_is_singular() -> None:
    entry = jobs.live(queue.parse_jobs(FAILED.replace("|2|train", "|1|train"))[0])
    assert "1 node" in status._job(entry)


@pytest.mark.parametrize(
    ("lacking", "summary"),
    [
        ((), "ready for AWS and for --local"),
        (("AWS",), "ready for --local, not for AWS"),
        (("--local",), "ready for AWS, not for --local"),
        (("AWS", "--local"), "not ready for AWS, --local"),
        (("up",), "not ready for up"),
    ],
)
def test_doctor_says_what_works(lacking: tuple[str, ...], summary: str) -> None:
    assert doctor._summary([doctor.Check("x", False, "", "", need) for need in lacking]) == summary


class Head:
    """Answers as the head node does: of environments, and of what jobs brought."""

    ENVIRONMENT = dict(name="torch", folder="/e/torch-01", state="ready", partition="train", job="", error="")
    OWN = dict(
        environment="torch-01", requirements=["timm", "tqdm"], state="ready", error="", jobs=["7"], folder="/j/23"
    )

    def run(self, argv: list[str], **more: object) -> Completed:
        failed = self.OWN | {
            "requirements": [],
            "jobs": [],
            "state": "failed",
            "error": "setup: false",
            "folder": "/j/45",
        }
        return Completed(0, json.dumps([self.ENVIRONMENT] if "sudo" in argv else [self.OWN, failed]), "")


def test_environments_are_listed_with_what_jobs_brought(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(env, "head", lambda context: nullcontext(Head()))
    env.command.main(["list"], obj=CliContext(), standalone_mode=False)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "STATE", "BUILT", "ON", "FOLDER"],
        ["torch", "ready", "train", "/e/torch-01"],
        ["+", "timm,", "tqdm", "ready", "(job", "7)", "head", "/j/23"],
        ["+", "setup", "failed", "head", "/j/45"],
        ["/j/45:", "setup:", "false"],
    ]


def test_one_word_prints_an_export_line_for_the_shell() -> None:
    assert ssh.remote_command(["cd /tmp && ls"]) == ["bash", "-c", "cd /tmp && ls"]
    assert ssh.remote_command(["echo", "a b"]) == ["echo", "a b"]


def test_a_job_that_continues_after_its_time_limit_shows_the_number_of_its_run() -> None:
    past = Past("2", "/jobs/raise-1-2-3", None, "run 2 of at most 21")
    (entry,) = jobs.merged(queue.parse_jobs(FAILED.replace("FAILED", "RUNNING")), [past])
    assert (entry["state"], entry["reason"]) == ("RUNNING", "run 2 of at most 21")
    (entry,) = jobs.merged([], [replace(past, result=RESULT)])
    assert entry["reason"] == "rank 3 on train-1 exited with code 1: RuntimeError: bad gradient"
