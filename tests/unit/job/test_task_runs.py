"""Whether a run of a task is queued: skipped where the last one did the same, refused where one has not ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.config import loads
from gpucluster.errors import RemoteError, UsageError
from gpucluster.job import SbatchRequest, load, sameness
from gpucluster.job.spec import JobSpec
from gpucluster.layout import expand
from gpucluster.submission import submit as submission
from gpucluster.submission import task as files_of
from tests.in_process import InProcessRemote

LAYOUT = expand(
    loads(
        "name: Test\nregion: us-east-1\ns3_access: [{uri: s3://mine/states, access: read-write}, {uri: s3://data}]\n"
        "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
    )
)


def command(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sbatch gives the ids 41, 42, …; squeue knows the jobs of the file `queue`."""
    stubs = tmp_path / "bin"
    stubs.mkdir()
    (tmp_path / "queue").touch()
    command(
        stubs / "sbatch",
        f'cd {tmp_path}; echo "$@" >>sbatched; echo $((40 + $(wc -l <sbatched)))',
    )
    command(stubs / "squeue", f"cat {tmp_path}/queue")
    monkeypatch.setenv("PATH", f"{stubs}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(submission, "ENVIRONMENTS", str(tmp_path / "envs"))
    (tmp_path / "envs/.wanted/torch").mkdir(parents=True)
    (tmp_path / "envs/.wanted/torch/complete").touch()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.py").write_text("print()\n")
    return tmp_path


def submit(head: Path, folder: str, force: bool = False, clean: bool = False, **flags: object) -> submission.Submitted:
    flags = {"command": ("python", "train.py"), "name": "small", "project": "digits"} | flags
    request = SbatchRequest.from_spec(load(LAYOUT, flags=flags), LAYOUT, str(head / "jobs" / folder))
    more = files_of.files(request, head / "work", None, force=force, clean=clean)
    return submission.submit(InProcessRemote(), request, submission.pack(request, {}, head / "work", None, more))


def ended(head: Path, folder: str, job_id: str, code: int = 0, at: str = "2026-11-23T01:00:00Z") -> None:
    """The record that the job writes (tests/shell/jobs/test_task_jobs.py)."""
    asked = json.loads((head / "jobs" / folder / "task.json").read_text())
    record = {"job_id": job_id, "exit_code": code, "ended_at": at, "key": asked["key"], "job_folder": folder}
    runs = head / "tasks/digits/small/runs"
    runs.mkdir(exist_ok=True)
    (runs / f"{job_id}.json").write_text(json.dumps(record))


def test_a_task_whose_last_run_succeeded_is_skipped(head: Path) -> None:
    assert submit(head, "a").job_id == "41"
    ended(head, "a", "41")
    again = submit(head, "b")
    assert (again.job_id, again.skipped_for) == ("41", "a")
    assert not (head / "jobs" / "b").exists()
    assert len((head / "sbatched").read_text().splitlines()) == 1


@pytest.mark.parametrize("more", [{"force": True}, {"clean": True}, {"nodes": 2}, {"env": {"LR": "1"}}, {"name": "b"}])
def test_a_changed_task_is_not_skipped(head: Path, more: dict) -> None:
    submit(head, "a")
    ended(head, "a", "41")
    assert submit(head, "b", **more) == submission.Submitted("42", ())


def test_it_is_not_skipped_after_its_code_has_changed(head: Path) -> None:
    submit(head, "a")
    ended(head, "a", "41")
    (head / "work/train.py").write_text("print(1)\n")
    assert submit(head, "b").job_id == "42"


@pytest.mark.parametrize("more", [{"time": "1:00:00"}, {"metrics": {"loss": "loss ([0-9.]+)"}}, {"preflight": "off"}])
def test_a_task_is_skipped_if_only_keys_without_effect_on_the_result_differ(head: Path, more: dict) -> None:
    submit(head, "a")
    ended(head, "a", "41")
    assert submit(head, "b", **more).skipped_for == "a"


def test_only_the_last_run_counts(head: Path) -> None:
    submit(head, "a")
    ended(head, "a", "41", at="2026-11-23T01:00:00Z")
    ended(head, "a", "9", code=1, at="2026-11-23T02:00:00Z")  # in a new cluster ids begin again
    assert submit(head, "b").job_id == "42"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "REQUEUED"])
def test_two_runs_of_a_task_at_once_are_refused(head: Path, state: str, force: bool) -> None:
    submit(head, "a")
    (head / "queue").write_text(f"41 {state} {head}/jobs/a/code\n")
    with pytest.raises(UsageError) as caught:
        submit(head, "b", force=force)
    assert "job 41 of the task digits/small has not ended" in caught.value.message
    assert "`gpucluster cancel 41`" in caught.value.message and "--name" in caught.value.message
    assert not (head / "jobs" / "b").exists()
    assert submit(head, "c", name="other").job_id == "42"


@pytest.mark.parametrize("queue", ["41 TIMEOUT {jobs}/a/code", "41 RUNNING {jobs}/else/code", ""])
def test_an_ended_run_does_not_block_the_next(head: Path, queue: str) -> None:
    submit(head, "a")
    (head / "queue").write_text(queue.format(jobs=head / "jobs"))
    assert submit(head, "b").job_id == "42"


def test_a_latest_run_without_a_record_is_not_ignored(head: Path) -> None:
    submit(head, "a")
    ended(head, "a", "41")
    submit(head, "b", force=True)  # its node is lost
    assert submit(head, "c").job_id == "43"


def test_a_run_whose_exports_failed_does_not_count_as_completed(head: Path) -> None:
    """The cluster says so in result.json, after the run has left its record (gpucluster_node/lustre/results.py)."""
    submit(head, "a")
    ended(head, str(head / "jobs/a"), "41")
    (head / "jobs/a/result.json").write_text('{"job_id": "41", "exit_code": 74, "reason": "not in S3"}')
    assert submit(head, "b").job_id == "42"


def test_without_an_answer_of_slurm_a_task_is_not_run_twice(head: Path) -> None:
    submit(head, "a")
    command(head / "bin/squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(RemoteError, match="does not say whether job 41 has ended: slurm_load_jobs error: Unable"):
        submit(head, "b")
    command(head / "bin/squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert submit(head, "c").job_id == "42"


def test_jobs_that_slurm_refuses_leave_the_task_as_it_was(head: Path) -> None:
    command(head / "bin/sbatch", "echo 'sbatch: error: no' >&2; exit 1")
    with pytest.raises(UsageError, match="Slurm rejected"):
        submit(head, "a")
    assert not (head / "tasks/digits/small/job").exists()


def test_every_key_of_a_job_is_compared_or_left_out_for_a_reason() -> None:
    assert set(JobSpec.model_fields) == set(sameness.COMPARED) | set(sameness.LEFT_OUT)
    assert not set(sameness.COMPARED) & set(sameness.LEFT_OUT)


def test_the_code_is_known_by_its_content(tmp_path: Path) -> None:
    def key() -> str:
        return files_of.code_key(tmp_path)

    (tmp_path / "train.py").write_text("print()\n")
    first = key()
    os.utime(tmp_path / "train.py", (1, 1))
    assert key() == first
    (tmp_path / "train.py").chmod(0o755)
    executable = key()
    (tmp_path / "link").symlink_to("train.py")
    assert len({first, executable, key()}) == 3


def _problem(**flags: object) -> str:
    from gpucluster.errors import JobSpecError

    with pytest.raises(JobSpecError) as caught:
        load(LAYOUT, flags={"command": ("true",)} | flags)
    return " ".join(f"{each.key}: {each.message} | {each.hint}" for each in caught.value.problems)


def test_wrong_options_of_tasks_are_refused() -> None:
    assert "needs a time limit, which this job lacks" in _problem(resubmit="until-done")
    assert "runs the job again" in _problem(resubmit="until-done", time="1:00:00", requeue=False)
    assert "add resubmit: until-done" in _problem(resubmit_limit=3)
    assert "only a job with a name keeps state" in _problem(state="s3://mine/states")
    assert "may not write to s3://data/x" in _problem(name="a", state="s3://data/x")
    assert "is not on shared storage" in _problem(name="a", state="/tmp/x")


def test_where_the_state_is(head: Path) -> None:
    def asked(**flags: object) -> dict:
        spec = load(LAYOUT, flags={"command": ("true",), "name": "small", "project": "digits"} | flags)
        request = SbatchRequest.from_spec(spec, LAYOUT, "/home/ubuntu/jobs/a")
        return json.loads(files_of.files(request, None, None)["task.json"].text)

    assert asked()["state"] == f"{head}/tasks/digits/small/state"
    assert asked(state="/home/ubuntu/big/")["state"] == "/home/ubuntu/big/digits/small"
    assert asked(state="s3://mine/states/")["s3"] == "s3://mine/states/digits/small"
