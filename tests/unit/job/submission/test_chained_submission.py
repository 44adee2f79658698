"""Chained jobs on their way through the head node's script, and the options that a stand-in for sbatch gets."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.cli import jobs as cli_jobs
from gpucluster.cli import main
from gpucluster.cli.frame import pipelines
from gpucluster.config import loads
from gpucluster.errors import UsageError
from gpucluster.following import explain, jobs
from gpucluster.job import SbatchRequest, load
from gpucluster.job.chain import Wait
from gpucluster.layout import expand
from gpucluster.submission import submit as submission
from gpucluster.submission import task as files_of
from tests.in_process import InProcessRemote

LAYOUT = expand(
    loads("name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)
PREPARE = {"name": "prepare", "command": ("a",), "outputs": ["shards"]}
TRAIN = {"name": "train", "command": ("b",), "channels": {"data": {"task": "prepare", "output": "shards"}}}


def command(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sbatch gives the ids 41, 42, …; squeue knows the jobs with a file in `states`: STATE FOLDER."""
    stubs = tmp_path / "bin"
    stubs.mkdir()
    (tmp_path / "states").mkdir()
    sbatch = 'cd PLACE; echo "$@" >>sbatched; id=$((40 + $(wc -l <sbatched))); for last; do :; done'
    known = 'echo PENDING "$(basename "$(dirname "$last")")" >"states/$id"; echo "$id"'
    command(stubs / "sbatch", f"{sbatch}\n{known}".replace("PLACE", str(tmp_path)))
    squeue = """
for each; do case $each in --jobs=*) id=${each#*=};; --format=*) format=${each#*=};; esac; done
cd PLACE/states; [ -n "${id:-}" ] || set -- *
rest="train|1||0:00|1:00|x|N/A|name|x"
[ -n "${id:-}" ] || { for id; do read -r state folder <"$id"; echo "$id|$state|$rest"; done; exit; }
[ -e "$id" ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
read -r state folder <"$id"
case $format in
  "%i %T %Z") echo $id $state PLACE/jobs/$folder/code ;;
  *) echo "$id|$state|train|1||0:00|1:00|x|N/A|name|Dependency" ;;
esac
"""
    command(stubs / "squeue", squeue.replace("PLACE", str(tmp_path)))
    command(stubs / "sinfo", "")
    monkeypatch.setenv("PATH", f"{stubs}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(submission, "ENVIRONMENTS", str(tmp_path / "envs"))
    (tmp_path / "envs/.wanted/torch").mkdir(parents=True)
    (tmp_path / "envs/.wanted/torch/complete").touch()
    return tmp_path


def submit(head: Path, folder: str, joins: bool = False, **flags: object) -> submission.Submitted:
    request = SbatchRequest.from_spec(
        load(LAYOUT, flags={"project": "demo", "workdir": None} | flags), LAYOUT, str(head / "jobs" / folder)
    )
    more = files_of.files(request, None, None, joins=joins)
    return submission.submit(InProcessRemote(), request, submission.pack(request, {}, None, None, more))


def state(head: Path, job_id: str, name: str, folder: str) -> None:
    (head / "states" / job_id).write_text(f"{name} {folder}\n")


def ended(head: Path, folder: str, job_id: str, code: int = 0) -> None:
    """The record that the job writes (tests/shell/jobs/test_task_jobs.py)."""
    asked = json.loads((head / "jobs" / folder / "task.json").read_text())
    record = {"job_id": job_id, "exit_code": code, "reason": "boom", "ended_at": "x", "key": asked["key"]}
    runs = Path(asked["folder"], "runs")
    runs.mkdir(exist_ok=True)
    (runs / f"{job_id}.json").write_text(json.dumps(record | {"job_folder": folder}))
    (head / "jobs" / folder / "result.json").write_text(json.dumps({"exit_code": code, "reason": "boom"}))
    state(head, job_id, "FAILED" if code else "COMPLETED", folder)


def options(head: Path) -> list[str]:
    return (head / "sbatched").read_text().splitlines()[-1].split()


def test_a_job_waits_in_slurm_for_the_run_that_makes_the_output(head: Path) -> None:
    submit(head, "p", **PREPARE)
    done = submit(head, "t", **TRAIN)
    assert done.waits == (Wait("41", True, "the task demo/prepare"),)
    assert options(head)[:3] == ["--parsable", "--dependency=afterok:41", "--kill-on-invalid-dep=yes"]
    (head / "jobs/by-id/42/log.txt").touch()
    assert "it waits for the task demo/prepare: job 41 is pending: it depends on" in "\n".join(
        explain.of(InProcessRemote(), None, "42").lines
    )


def test_a_finished_run_is_not_waited_for(head: Path) -> None:
    submit(head, "p", **PREPARE)
    ended(head, "p", "41")
    assert submit(head, "t", **TRAIN).waits == (Wait("41", False, "the task demo/prepare"),)
    assert "--dependency" not in " ".join(options(head))


def test_a_task_is_skipped_only_as_long_as_its_input_is_the_same(head: Path) -> None:
    submit(head, "p", **PREPARE)
    ended(head, "p", "41")
    submit(head, "t", **TRAIN)
    ended(head, "t", "42")
    assert submit(head, "t2", **TRAIN).skipped_for == "t"
    submit(head, "p2", **PREPARE, env={"A": "1"})
    assert (submit(head, "t3", **TRAIN).job_id, options(head)[1]) == ("44", "--dependency=afterok:43")


def test_a_submission_that_is_refused_leaves_the_outputs_as_they_are(head: Path) -> None:
    submit(head, "a", **PREPARE | {"outputs": {"shards": "/home/shards"}})
    place = head / "tasks/demo/prepare/outputs/shards"
    with pytest.raises(UsageError, match="job 41 of the task .* has not ended"):
        submit(head, "b", **PREPARE)
    assert os.readlink(place) == "/home/shards"
    ended(head, "a", "41")
    sbatch = (head / "bin/sbatch").read_text()
    command(head / "bin/sbatch", "echo 'sbatch: error: no' >&2; exit 1")
    with pytest.raises(UsageError, match="Slurm rejected the job"):
        submit(head, "c", **PREPARE)
    assert os.readlink(place) == "/home/shards"
    (head / "bin/sbatch").write_text(sbatch)
    submit(head, "d", **PREPARE)
    assert place.is_dir() and not place.is_symlink()


def test_an_unknown_task_is_refused_and_leaves_nothing(head: Path) -> None:
    with pytest.raises(UsageError, match="channels.data: there is no task demo/prepare; there are none yet"):
        submit(head, "t", **TRAIN)
    assert not (head / "jobs/t").exists()
    assert not (head / "sbatched").exists()


def test_a_job_whose_predecessor_failed_says_so_and_names_the_first(head: Path) -> None:
    submit(head, "p", **PREPARE)
    submit(head, "t", **TRAIN, outputs=["model"])
    submit(head, "e", name="evaluate", command=("c",), after=["train"])
    ended(head, "p", "41", code=1)
    for job_id, folder in (("42", "t"), ("43", "e")):
        state(head, job_id, "CANCELLED", folder)
    found = jobs.ending(InProcessRemote(), "43")
    assert found is not None
    assert found.sentence("43") == (
        "job 43 was cancelled: the task demo/train failed, which it waited for: "
        "job 42 was cancelled: the task demo/prepare failed, which it waited for: job 41 failed: boom"
    )


def test_a_pipeline_submitted_again_uses_its_queued_jobs(head: Path) -> None:
    submit(head, "p", **PREPARE)
    again = submit(head, "p2", joins=True, **PREPARE)
    assert (again.job_id, again.queued, again.skipped_for) == ("41", True, str(head / "jobs/p"))
    with pytest.raises(UsageError, match="job 41 of the task .* has not ended"):
        submit(head, "p3", joins=True, **PREPARE, env={"A": "1"})
    with pytest.raises(UsageError, match="job 41 of the task .* has not ended"):
        submit(head, "p4", **PREPARE)


PIPELINE = """\
project: demo
defaults: {workdir: code}
jobs:
  prepare: {command: [python, prepare.py], outputs: [shards]}
  train:
    command: [python, train.py]
    channels: {data: {task: prepare, output: shards}}
    outputs: [model]
  evaluate:
    command: [python, evaluate.py]
    channels: {model: {task: train, output: model}}
    after: [prepare]
"""


@pytest.fixture
def pipeline(head: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`gpucluster submit pipeline.yaml`: exit code, lines of stderr, and the last line of stdout."""
    (head / "code").mkdir()
    for name in ("prepare", "train", "evaluate"):
        (head / "code" / f"{name}.py").write_text(name)
    (head / "pipeline.yaml").write_text(PIPELINE)
    partitions = "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]"
    (head / "cluster.yaml").write_text(f"name: Test\nregion: us-east-1\n{partitions}\n")
    monkeypatch.chdir(head)
    monkeypatch.setattr(account, "home", lambda: str(head))
    monkeypatch.setattr(pipelines, "head", lambda *_: contextlib.nullcontext(InProcessRemote()))

    def call(*words: str):
        code = main(["submit", "pipeline.yaml", *words])
        out, err = capsys.readouterr()
        return code, err.splitlines(), json.loads(out.splitlines()[-1]) if out else {}

    return call


def shown(head: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str):
    monkeypatch.setattr(cli_jobs, "head", lambda *_: contextlib.nullcontext(InProcessRemote()))
    code = main(["jobs", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_projects_jobs_as_a_tree(head: Path, pipeline, monkeypatch, capsys) -> None:
    _, _, first = pipeline()
    finish(head, first, 0, 1)
    state(head, "43", "CANCELLED", first["jobs"][2]["folder"].rpartition("/")[2])
    code, out, _ = shown(head, monkeypatch, capsys, "--project", "demo")
    assert (code, out.splitlines()) == (0, [
        "demo",
        "└── prepare: job 41 completed",
        "    └── train: job 42 failed: boom",
        "        └── evaluate: job 43 was cancelled (also after prepare)",
    ])  # fmt: skip
    rows = json.loads(shown(head, monkeypatch, capsys, "--project", "demo", "--json")[1])
    assert {tuple(row) for row in rows} == {("task", "job_id", "description", "after")}
    assert {row["task"]: row["description"] for row in rows}["train"] == "job 42 failed: boom"
    assert [(row["task"], row["job_id"], row["after"]) for row in rows][-1] == ("evaluate", "43", ["train", "prepare"])
    assert shown(head, monkeypatch, capsys, "--project", "dmeo") == (
        2, "", "error: there is no task of a project dmeo\nhint: did you mean 'demo'?\n",
    )  # fmt: skip


def hows(last: dict) -> list[tuple[str, str, str]]:
    return [(each["name"], each["job_id"], each["how"]) for each in last["jobs"]]


def finish(head: Path, last: dict, *codes: int) -> None:
    for each, code in zip(last["jobs"], codes, strict=False):
        ended(head, each["folder"].rpartition("/")[2], each["job_id"], code)


def test_a_pipeline_is_submitted_as_one_and_shown_as_a_tree(head: Path, pipeline) -> None:
    code, lines, last = pipeline()
    assert (code, lines) == (0, [
        "demo",
        "└── prepare: job 41 submitted",
        "    └── train: job 42 submitted",
        "        └── evaluate: job 43 submitted (also after prepare)",
    ])  # fmt: skip
    assert [line.split()[1] for line in (head / "sbatched").read_text().splitlines()[1:]] == [
        "--dependency=afterok:41",
        "--dependency=afterok:42:41",
    ]
    assert hows(last) == [("prepare", "41", "submitted"), ("train", "42", "submitted"), ("evaluate", "43", "submitted")]


def test_a_pipeline_continues_where_it_failed(head: Path, pipeline) -> None:
    _, _, first = pipeline()
    finish(head, first, 0, 1)
    state(head, "43", "CANCELLED", first["jobs"][2]["folder"].rpartition("/")[2])
    _, lines, again = pipeline()
    assert hows(again) == [("prepare", "41", "skipped"), ("train", "44", "submitted"), ("evaluate", "45", "submitted")]
    assert "└── prepare: job 41 succeeded with the same code and inputs: skipped" in lines
    assert hows(pipeline()[2]) == [
        ("prepare", "41", "skipped"),
        ("train", "44", "queued"),
        ("evaluate", "45", "queued"),
    ]


def test_an_edited_job_is_submitted_with_its_successors(head: Path, pipeline) -> None:
    finish(head, pipeline()[2], 0, 0, 0)
    assert {each[2] for each in hows(pipeline()[2])} == {"skipped"}
    (head / "pipeline.yaml").write_text(PIPELINE.replace("train.py]", "train.py, --epochs, 3]"))
    assert [each[2] for each in hows(pipeline()[2])] == ["skipped", "submitted", "submitted"]


def test_a_job_refused_in_the_middle_leaves_the_others_queued_and_is_reported(head: Path, pipeline) -> None:
    sbatch = (head / "bin/sbatch").read_text()
    refuses = 'case "$*" in *train-*) echo "sbatch: error: Job violates accounting policy" >&2; exit 1;; esac\n'
    (head / "bin/sbatch").write_text(sbatch.replace("cd ", refuses + "cd ", 1))
    code, lines, _ = pipeline()
    assert (code, lines) == (2, [
        "error: train: Slurm rejected the job: Job violates accounting policy; queued: prepare (job 41); "
        "not submitted: train, evaluate",
        "hint: run the same command again: it submits only jobs that are neither queued nor completed",
    ])  # fmt: skip
    (head / "bin/sbatch").write_text(sbatch)
    assert [each[2] for each in hows(pipeline()[2])] == ["queued", "submitted", "submitted"]


def test_errors_found_offline_stop_a_pipeline_before_its_first_job(head: Path, pipeline) -> None:
    (head / "code/evaluate.py").unlink()
    code, lines, _ = pipeline()
    assert (code, "error: evaluate: command: no file evaluate.py in the workdir code" in lines[0]) == (2, True)
    assert not (head / "sbatched").exists()
    code, lines, _ = pipeline("--nodes", "3")
    assert (code, lines[0]) == (2, "error: --nodes is for a single job, and pipeline.yaml has several")


def test_a_pipelines_scripts_without_a_cluster(pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "pipeline.yaml", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert [line.rpartition(" ")[2] for line in out.splitlines() if line.startswith("  -- ")] == [
        "prepare.py", "train.py", "evaluate.py",
    ]  # fmt: skip


def test_a_pipeline_warns_as_its_jobs_alone_would_and_once(head: Path, pipeline) -> None:
    text = PIPELINE.replace("{workdir: code}", "{workdir: code, env: {HF_TOKEN: x}}")
    (head / "pipeline.yaml").write_text(text)
    (head / "code" / "out").symlink_to(head / "bin")
    code, lines, _ = pipeline()
    warned = [line for line in lines if line.startswith("warning: ")]
    assert (code, len(warned)) == (0, 2)
    assert warned[0].startswith("warning: --env HF_TOKEN: everybody on the cluster can read its value")
    assert warned[1] == f"warning: the link out -> {head}/bin points outside the workdir: only the link is uploaded"


def test_a_pipelines_dry_run_warns_of_what_a_submission_refuses(head: Path, pipeline, capsys) -> None:
    (head / "code" / "evaluate.py").unlink()
    assert main(["submit", "pipeline.yaml", "--dry-run"]) == 0
    warning = (
        "warning: command: no file evaluate.py in the workdir code, which is all that nodes get from this machine\n"
    )
    assert capsys.readouterr().err == warning
