"""A submission whose connection breaks, or whose client is killed, and the same command again."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpucluster import account
from gpucluster.config import loads
from gpucluster.errors import RemoteError, UnansweredError
from gpucluster.head.remote import Completed, Sent
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import Layout, expand
from gpucluster.submission import interrupted
from gpucluster.submission import submit as submission
from tests.in_process import InProcessRemote

PARTITIONS = "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
LAYOUT = expand(loads(f"name: Test\nregion: us-east-1\n{PARTITIONS}"))
OTHERS = [
    expand(loads(f"name: Other\nregion: us-east-1\n{PARTITIONS}")),
    expand(loads(f"name: Test\nregion: us-west-2\n{PARTITIONS}")),
]


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sbatch gives the ids 41, 42, …"""
    stub = tmp_path / "bin" / "sbatch"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\necho x >>{tmp_path}/sbatched\necho $((40 + $(wc -l <{tmp_path}/sbatched)))\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(submission, "ENVIRONMENTS", str(tmp_path / "envs"))
    monkeypatch.setattr(interrupted, "NOTES", tmp_path / "notes")
    (tmp_path / "envs/.wanted/torch").mkdir(parents=True)
    (tmp_path / "envs/.wanted/torch/complete").touch()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.py").write_text("print()\n")
    return tmp_path


class Breaking(InProcessRemote):
    """Its connection breaks during the first command with input: before it runs, or after, or until it is repaired."""

    def __init__(self, when: str) -> None:
        self.when = when

    def run(
        self, argv: Sequence[str], *, input: bytes | None = None, timeout_s: float = 60, sent: Sent | None = None
    ) -> Completed:
        if self.when == "away":
            raise RemoteError("no SSH connection to the head node")
        when, self.when = (self.when, "") if input else ("", self.when)
        if when == "before":
            raise UnansweredError("the connection broke")
        done = super().run(argv, input=input, timeout_s=timeout_s, sent=sent)
        if when:
            self.when = "away" if when == "for good" else ""
            raise UnansweredError("the connection broke")
        return done


def submit(
    head: Path,
    remote: InProcessRemote,
    name: str = "digits-20261123-120000-00aa",
    layout: Layout = LAYOUT,
    **flags: object,
) -> submission.Submitted:
    spec = load(layout, flags={"command": ("python", "train.py")} | flags)
    request = SbatchRequest.from_spec(spec, layout, str(head / "jobs" / name))
    return submission.submit(remote, request, submission.pack(request, {}, head / "work"))


AGAIN = "digits-20261123-120500-11bb"


def jobs(head: Path) -> int:
    return len((head / "sbatched").read_text().split()) if (head / "sbatched").exists() else 0


def notes(head: Path) -> list[Path]:
    return list((head / "notes").glob("*"))


def test_an_answered_submission_leaves_no_note(head: Path) -> None:
    assert [submit(head, InProcessRemote(), name).job_id for name in ("a", "b")] == ["41", "42"]
    assert not notes(head)


def test_a_lost_answer_is_fetched(head: Path) -> None:
    done = submit(head, Breaking("after"))
    assert (done.job_id, jobs(head), notes(head)) == ("41", 1, [])


def test_the_same_command_after_a_lost_answer_finds_the_job(head: Path) -> None:
    with pytest.raises(RemoteError) as raised:
        submit(head, Breaking("for good"))
    assert raised.value.hint and "it first asks the head node" in raised.value.hint
    done = submit(head, InProcessRemote(), AGAIN)
    assert (done.job_id, done.folder, jobs(head)) == ("41", f"{head}/jobs/digits-20261123-120000-00aa", 1)
    assert submit(head, InProcessRemote(), "digits-20261123-121000-22cc").job_id == "42", "that is meant"


@pytest.mark.parametrize("other", OTHERS)
def test_the_same_command_for_another_cluster_is_another_job(head: Path, other: Layout) -> None:
    """The other head node does not know the job, and its answer must not delete the note."""
    with pytest.raises(RemoteError):
        submit(head, Breaking("for good"))
    assert submit(head, InProcessRemote(), AGAIN, other).job_id == "42"
    assert len(notes(head)) == 1
    assert submit(head, InProcessRemote(), "digits-20261123-121000-22cc").job_id == "41"


def test_a_submission_unpacks_its_archive_once_to_know_it_again(head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[object] = []
    opened = interrupted.gzip.open
    monkeypatch.setattr(interrupted.gzip, "open", lambda *given: unpacked.append(given) or opened(*given))
    submit(head, InProcessRemote())
    assert len(unpacked) == 1


FORGOTTEN = "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1"


@pytest.mark.parametrize(
    ("squeue", "reason", "job_id"),
    [
        ("echo CANCELLED", "", "42"),
        ("echo CANCELLED; echo RUNNING", "", "41"),
        ("echo PENDING", "", "41"),
        ("echo COMPLETED", "null", "41"),
        (FORGOTTEN, "", "42"),
        (FORGOTTEN, '"cancelled"', "42"),
        (FORGOTTEN, "null", "41"),
        ("echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1", "", "41"),
    ],
)
def test_the_same_command_after_the_job_was_cancelled_is_another_job(
    head: Path, squeue: str, reason: str, job_id: str
) -> None:
    with pytest.raises(RemoteError):
        submit(head, Breaking("for good"))
    (head / "bin/squeue").write_text(f"#!/bin/sh\n{squeue}\n")
    (head / "bin/squeue").chmod(0o755)
    if reason:
        text = f'{{\n  "job_id": "41",\n  "reason": {reason},\n  "ended_at": ""\n}}\n'
        (head / "jobs/digits-20261123-120000-00aa/result.json").write_text(text)
    assert submit(head, InProcessRemote(), AGAIN).job_id == job_id
    assert notes(head) == []


def test_a_home_directory_on_nfs_keeps_locks(head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux's NFS client implements flock() by locks of a range, as lockf() does (flock(2))."""
    monkeypatch.setattr(interrupted.fcntl, "flock", fcntl.lockf)
    with pytest.raises(RemoteError):
        submit(head, Breaking("for good"))
    assert submit(head, InProcessRemote(), AGAIN).job_id == "41"


def test_a_job_whose_answer_cannot_be_written_is_cancelled(head: Path) -> None:
    """The disk is full just after sbatch."""
    (head / "bin/sbatch").write_text(f"#!/bin/sh\nmkdir $(echo {head}/jobs/digits*)/submitted.new\necho 41\n")
    (head / "bin/scancel").write_text(f'#!/bin/sh\necho "$@" >>{head}/cancelled\n')
    (head / "bin/scancel").chmod(0o755)
    with pytest.raises(RemoteError):
        submit(head, InProcessRemote())
    assert (head / "cancelled").read_text() == "41\n"
    assert not (head / "jobs/digits-20261123-120000-00aa").exists()


@pytest.mark.parametrize("change", ["command", "code", "mode"])
def test_another_command_after_a_lost_answer_is_another_job(head: Path, change: str) -> None:
    with pytest.raises(RemoteError):
        submit(head, Breaking("for good"))
    if change == "code":
        (head / "work/train.py").write_text("print(1)\n")
    if change == "mode":
        (head / "work/train.py").chmod(0o755)
    flags = {"command": ("python", "train.py", "--more")} if change == "command" else {}
    assert submit(head, InProcessRemote(), AGAIN, **flags).job_id == "42"


def test_two_equal_submissions_at_once_are_two_jobs(head: Path) -> None:
    class Meanwhile(InProcessRemote):
        def run(self, argv: Sequence[str], *, input: bytes | None = None, **more: Any) -> Completed:
            if input:
                assert submit(head, InProcessRemote(), AGAIN).job_id == "41"
            return super().run(argv, input=input, **more)

    assert submit(head, Meanwhile()).job_id == "42"
    assert not notes(head)


def test_a_note_is_valid_for_an_hour(head: Path) -> None:
    with pytest.raises(RemoteError):
        submit(head, Breaking("for good"))
    os.utime(notes(head)[0], (time.time() - interrupted.VALID_S - 1,) * 2)
    assert submit(head, InProcessRemote(), AGAIN).job_id == "42"


def test_a_connection_that_breaks_before_everything_is_sent_submits_nothing(head: Path) -> None:
    with pytest.raises(RemoteError) as raised:
        submit(head, Breaking("before"))
    assert raised.value.message.endswith("no job was submitted")
    assert (jobs(head), notes(head)) == (0, [])


@pytest.mark.parametrize("has_begun", [True, False])
def test_an_upload_that_hangs_is_not_accepted_any_more(head: Path, has_begun: bool) -> None:
    """The first one's files arrive, or its script begins, after the second one has asked."""
    folder = head / "jobs" / "digits-20261123-120000-00aa"
    if has_begun:
        folder.mkdir(parents=True)
    with interrupted.Note(head / "notes" / "x", str(folder)) as note:
        assert note.outcome(InProcessRemote()) == ""
    with pytest.raises(RemoteError):
        submit(head, InProcessRemote())
    assert not folder.exists() and jobs(head) == 0


def test_a_submission_that_died_on_the_head_node_is_an_error_once(head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example because the head node restarted: nobody knows whether sbatch was called."""
    monkeypatch.setattr(interrupted, "WAIT_S", 1)
    with pytest.raises(RemoteError):
        submit(head, Breaking("for good"))
    (head / "jobs/digits-20261123-120000-00aa/submitted").write_text("")
    with pytest.raises(RemoteError, match="it is not known whether Slurm has the job"):
        submit(head, InProcessRemote(), AGAIN)
    assert submit(head, InProcessRemote(), AGAIN).job_id == "42"


def test_without_a_cache_folder_jobs_are_submitted_all_the_same(head: Path) -> None:
    (head / "notes").write_text("a file")
    assert submit(head, InProcessRemote()).job_id == "41"
