"""Chains: what a job may name, what its script and its folder say of it, and what the head node finds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand
from gpucluster_job import chain
from gpucluster_job.settings import GaveUp

LAYOUT = expand(
    loads("name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)
DATA = {"channels": {"data": {"task": "prepare", "output": "shards"}}}


def spec(**flags):
    return load(LAYOUT, flags={"command": ("a",), "name": "train", "project": "demo"} | flags)


def files(**flags):
    return SbatchRequest.from_spec(spec(**flags), LAYOUT, "/home/ubuntu/jobs/a").files()


def test_a_channel_reads_the_folder_of_a_tasks_output() -> None:
    texts = files(**DATA)
    source = "/home/ubuntu/tasks/demo/prepare/outputs/shards"
    assert json.loads(texts["channels.json"])["data"]["source"] == source
    assert json.loads(texts["chain.json"])["waits"] == [
        {"key": "channels.data", "label": "demo/prepare", "output": "shards"}
    ]
    other = spec(channels={"data": {"task": "other/prepare", "output": "shards", "shard": "by-node"}})
    assert other.channels["data"].source == "/home/ubuntu/tasks/other/prepare/outputs/shards"


def test_the_completed_job_is_the_same_when_it_is_read_again() -> None:
    whole = spec(**DATA, outputs=["model"], after=["12", "prepare"])
    assert load(LAYOUT, flags=whole.model_dump(mode="json")) == whole


def test_outputs_are_variables_of_the_ranks() -> None:
    script = files(outputs={"model": None, "shards": "/home/shared/shards"})["job.sbatch"]
    assert "export GPUCLUSTER_OUTPUT_MODEL=/home/ubuntu/tasks/demo/train/outputs/model\n" in script
    assert "export GPUCLUSTER_OUTPUT_SHARDS=/home/shared/shards\n" in script


def test_jobs_and_tasks_that_come_before() -> None:
    waits = json.loads(files(after=[12, "prepare", "other/eval"])["chain.json"])["waits"]
    assert waits == [
        {"key": "after", "job_id": "12"},
        {"key": "after", "label": "demo/prepare"},
        {"key": "after", "label": "other/eval"},
    ]
    assert spec(after=12).after == ("12",)


def test_a_job_without_chains_has_no_such_file() -> None:
    assert "chain.json" not in files()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"channels": {"data": {"task": "prepare"}}}, "needs both a task and its output"),
        ({"channels": {"data": {"output": "shards"}}}, "needs both a task and its output"),
        ({"channels": {"data": {"shard": "none"}}}, "needs a source"),
        (
            {"channels": {"data": {"task": "a", "output": "b", "source": "/home/x"}}},
            "source and task exclude each other",
        ),
        ({"channels": {"data": {"task": "../x", "output": "b"}}}, "must be a task: NAME or PROJECT/NAME"),
        ({"channels": {"data": {"task": "train", "output": "b"}}}, "would wait for itself"),
        ({"after": ["demo/train"]}, "would wait for itself"),
        ({"name": None, "project": None, "after": ["x"]}, "the project of the task x is not known"),
        ({"name": None, "project": None, "outputs": ["x"]}, "belong to a task, and the job has no name"),
        ({"outputs": {"x": "/scratch/x"}}, "/scratch/x is not on shared storage"),
        ({"outputs": ["Big"]}, "must be up to 32 lower-case letters"),
    ],
)
def test_refused(flags, said) -> None:
    with pytest.raises(JobSpecError, match=said):
        spec(**flags)


class Head:
    """A head node's folders, with a squeue that knows `states`."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.tasks, self.jobs = place, place / "tasks", place / "jobs"
        self.states: dict[str, str] = {}
        self.tasks.mkdir()
        (self.jobs / "by-id").mkdir(parents=True)
        (place / "bin").mkdir()
        squeue = place / "bin" / "squeue"
        squeue.write_text(
            "#!/bin/sh\nfor each; do case $each in --jobs=*) ids=$(echo ${each#*=} | tr , ' ');; esac; done\n"
            f"cd {place}/states; cat $ids 2>/dev/null\n"
            '[ -e "$ids" ] || [ "${ids#* }" != "$ids" ] || '  # one that it has forgotten; of several it says nothing
            "{ echo 'slurm_load_jobs error: Invalid job id' >&2; exit 1; }\n"
        )
        squeue.chmod(0o755)
        (place / "states").mkdir()
        monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")

    def ran(self, label: str, job_id: str, state: str, *outputs: str, code: int | None = None) -> None:
        folder, job = self.tasks / label, f"{label.replace('/', '-')}-{job_id}"
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        (folder / "job").write_text(f"{job_id} {job}\n")
        (self.place / "states" / job_id).write_text(f"{job_id} {state} {self.jobs}/{job}/code\n")
        for name in outputs:
            (folder / "outputs" / name).mkdir(parents=True, exist_ok=True)
        if code is not None:
            record = {"job_id": job_id, "exit_code": code, "reason": "boom", "ended_at": f"2026-01-01T00:00:0{job_id}Z"}
            record["job_folder"] = str(self.jobs / job)
            (folder / "runs" / f"{job_id}.json").write_text(json.dumps(record))

    def folder(self, job_id: str) -> Path:
        job = self.jobs / f"a-{job_id}"
        job.mkdir()
        (self.jobs / "by-id" / job_id).symlink_to(job)
        return job

    def sweep(self, *codes: int | None) -> Path:
        """The task demo/sweep: the array 29, whose elements ended so; None: without a result."""
        job, task = self.folder("29"), self.tasks / "demo" / "sweep"
        (job / "runs").mkdir()
        (job / "runs" / "29").write_text("".join(f"{index}\n" for index in range(len(codes))))
        task.mkdir(parents=True)
        (task / "job").write_text(f"29 {job.name}\n")
        for index, code in enumerate(codes):
            (job / str(index)).mkdir()
            if code is not None:
                self.element(job, index, code)
        return job

    def element(self, job: Path, index: int, code: int) -> None:
        (job / str(index) / "result.json").write_text(json.dumps({"exit_code": code}))

    def again(self, job: Path, job_id: str, index: int) -> None:
        """As `gpucluster resubmit` has it."""
        (job / "runs" / job_id).write_text(f"{index}\n")
        (job / str(index) / "result.json").touch()
        (job / str(index) / "result.json").rename(job / str(index) / "result-29.json")
        (self.jobs / "by-id" / job_id).symlink_to(job)
        (self.tasks / "demo" / "sweep" / "job").write_text(f"{job_id} {job.name}\n")

    def knows(self, job: Path, **states: str) -> None:
        """Slurm does: _29_0="FAILED"."""
        for element, state in states.items():
            with (self.place / "states" / element.split("_")[1]).open("a") as file:
                file.write(f"{element[1:]} {state} {job}/code\n")

    def ask(self, capsys: pytest.CaptureFixture[str], **flags) -> tuple[int, str, str]:
        job = self.jobs / "new"
        job.mkdir(exist_ok=True)
        asked = json.loads(files(**flags)["chain.json"])
        own = str(self.tasks / "demo" / "train")
        (job / "chain.json").write_text(json.dumps(asked | {"tasks": str(self.tasks), "folder": own}))
        code = chain.main(["chain", str(job)])
        out, err = capsys.readouterr()
        return code, out.strip(), err.strip()


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    return Head(tmp_path, monkeypatch)


def test_a_task_that_runs_is_waited_for(head, capsys) -> None:
    head.ran("demo/prepare", "7", "RUNNING", "shards")
    assert head.ask(capsys, **DATA, after=["prepare"]) == (0, ":7", "")
    assert (head.jobs / "new" / "waits").read_text() == "7 queued the task demo/prepare\n" * 2


def test_a_task_that_succeeded_is_read_at_once(head, capsys) -> None:
    head.ran("demo/prepare", "7", "COMPLETED", "shards", code=0)
    assert head.ask(capsys, **DATA) == (0, "", "")
    assert (head.jobs / "new" / "waits").read_text() == "7 done the task demo/prepare\n"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            DATA,
            "error: channels.data: the task demo/prepare has not succeeded: job 7 failed: boom; submit it again first",
        ),
        (
            {"channels": {"data": {"task": "prepare", "output": "shard"}}},
            "error: channels.data: the task demo/prepare has no output shard; did you mean shards?",
        ),
        (
            {"channels": {"data": {"task": "prepare", "output": "model"}}},
            "error: channels.data: the task demo/prepare has no output model; known: shards",
        ),
        (
            {"channels": {"data": {"task": "perpare", "output": "shards"}}},
            "error: channels.data: there is no task demo/perpare; did you mean demo/prepare?",
        ),
        ({"after": ["x/y"]}, "error: after: there is no task x/y; known: demo/prepare"),
        ({"after": ["9"]}, "error: after: there is no job 9; `gpucluster jobs` lists them"),
        ({"after": ["7"]}, "error: after: job 7 has not succeeded: FAILED"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(head, capsys, flags, said) -> None:
    head.ran("demo/prepare", "7", "FAILED", "shards", code=1)
    (head.place / "states" / "7").write_text("7 FAILED /elsewhere\n")
    assert head.ask(capsys, **flags) == (3, "", said)


def test_a_job_that_slurm_has_forgotten_is_known_by_its_result(head, capsys) -> None:
    head.folder("9")
    (head.jobs / "by-id" / "9" / "result.json").write_text('{"exit_code": 0}')
    assert head.ask(capsys, after=["9"]) == (0, "", "")
    (head.jobs / "by-id" / "9" / "result.json").write_text('{"exit_code": 2}')
    assert head.ask(capsys, after=["9"]) == (3, "", "error: after: job 9 has not succeeded: exit code 2")


@pytest.mark.parametrize(("after", "what"), [("sweep", "the task demo/sweep"), ("29", "job 29")])
def test_a_completed_sweep_can_be_an_input_if_all_elements_succeeded(head, capsys, after, what) -> None:
    job = head.sweep(0, 0)
    assert head.ask(capsys, after=[after]) == (0, "", "")
    assert (head.jobs / "new" / "waits").read_text() == f"29 done {what}\n"
    head.element(job, 1, 1)
    said = f"error: after: {what} has not succeeded: of its 2 elements, 1 failed"
    hint = "; `gpucluster resubmit 29 --failed` runs them again"
    assert head.ask(capsys, after=[after]) == (3, "", said + hint)
    (job / "0" / "result.json").unlink()
    assert head.ask(capsys, after=[after]) == (3, "", f"{said}, 1 without result{hint}")
    (job / "0" / "cancelled-29").touch()
    assert head.ask(capsys, after=[after]) == (3, "", f"{said}, 1 cancelled{hint}")


@pytest.mark.parametrize("after", ["sweep", "29"])
def test_a_sweep_whose_failed_elements_ran_again_has_succeeded(head, capsys, after) -> None:
    job = head.sweep(0, 1)
    head.knows(job, _29_0="COMPLETED", _29_1="FAILED")
    assert head.ask(capsys, after=[after])[0] == 3
    head.again(job, "30", 1)
    head.knows(job, _30_1="RUNNING")
    assert head.ask(capsys, after=[after]) == (0, ":30", "")
    (head.place / "states" / "30").unlink()
    head.element(job, 1, 0)
    assert head.ask(capsys, after=[after]) == (0, "", "")


def test_a_resubmitted_sweeps_newest_runs_are_waited_for(head, capsys) -> None:
    job = head.sweep(0, 1, None)
    head.again(job, "30", 1)
    head.knows(job, _29_0="COMPLETED", _29_1="FAILED", _29_2="RUNNING", _30_1="PENDING")
    assert head.ask(capsys, after=["sweep"]) == (0, ":29_2:30", "")
    what = "the task demo/sweep"
    assert (head.jobs / "new" / "waits").read_text() == f"29 queued {what}\n30 queued {what}\n"


def test_a_sweep_that_runs_is_waited_for_as_a_whole(head, capsys) -> None:
    job = head.sweep(None, 0)
    head.knows(job, _29_0="RUNNING", _29_1="COMPLETED")
    assert head.ask(capsys, after=["sweep", "29"]) == (0, ":29", "")


def test_a_task_runs_again_when_an_element_of_its_input_ran_again(head, capsys) -> None:
    job, keys = head.sweep(0, 0), []
    (head.jobs / "new").mkdir()
    for job_id in ("", "30"):
        if job_id:
            head.again(job, job_id, 1)
            head.element(job, 1, 0)
        (head.jobs / "new" / "task.json").write_text('{"key": "abc", "label": "demo/train"}')
        assert head.ask(capsys, after=["sweep"]) == (0, "", "")
        keys.append(json.loads((head.jobs / "new" / "task.json").read_text())["key"])
    assert keys[0] != keys[1]


def test_a_run_whose_exports_failed_has_not_succeeded(head, capsys) -> None:
    """The cluster judges them after the run has left its record (gpucluster_node/lustre/results.py)."""
    head.ran("demo/prepare", "7", "COMPLETED", "shards", code=0)
    job = head.jobs / "demo-prepare-7"
    job.mkdir()
    (head.jobs / "by-id" / "7").symlink_to(job)
    (job / "result.json").write_text(json.dumps({"job_id": "7", "exit_code": 74, "reason": "1 file did not reach S3"}))
    refused = "the task demo/prepare has not succeeded: job 7 failed: 1 file did not reach S3; submit it again first"
    assert head.ask(capsys, **DATA) == (3, "", f"error: channels.data: {refused}")
    assert head.ask(capsys, after=["7"]) == (3, "", "error: after: job 7 has not succeeded: exit code 74")


def test_an_older_success_does_not_count_if_the_latest_run_left_no_result(head, capsys) -> None:
    head.ran("demo/prepare", "7", "COMPLETED", "shards", code=0)
    head.ran("demo/prepare", "8", "NODE_FAIL", "shards")
    said = "the task demo/prepare has not succeeded: job 8 has no result; submit it again first"
    assert head.ask(capsys, **DATA) == (3, "", f"error: channels.data: {said}")


def test_a_slurm_that_does_not_answer_is_not_taken_for_a_job_that_has_ended(head, capsys) -> None:
    head.folder("12")
    (head.place / "bin" / "squeue").write_text(
        "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2; exit 1\n"
    )
    with pytest.raises(SystemExit, match="Slurm does not say whether job 12 has ended: slurm_load_jobs error: Unable"):
        head.ask(capsys, after=["12"])


def test_outputs_are_known_before_the_job_has_run(head, capsys, tmp_path) -> None:
    assert head.ask(capsys, outputs={"model": None, "big": "/home/big"}) == (0, "", "")
    assert not (head.tasks / "demo" / "train").exists()
    chain.main(["chain", str(head.jobs / "new"), "outputs"])
    place = head.tasks / "demo" / "train" / "outputs"
    assert (place / "model").is_dir()
    assert os.readlink(place / "big") == "/home/big"
    assert head.ask(capsys, outputs={"model": "/home/model", "big": None}) == (0, "", "")
    chain.main(["chain", str(head.jobs / "new"), "outputs"])
    assert os.readlink(place / "model") == "/home/model"
    (place / "big" / "file").touch()
    code, _, err = head.ask(capsys, outputs={"big": "/home/big"})
    assert (code, "outputs.big: " in err, "holds files of earlier runs" in err) == (3, True, True)


def test_a_task_runs_again_when_its_input_was_made_again(head, capsys) -> None:
    (head.jobs / "new").mkdir()
    keys = []
    for job_id in ("7", "7", "8"):
        (head.jobs / "new" / "task.json").write_text('{"key": "abc", "label": "demo/train"}')
        head.ran("demo/prepare", job_id, "COMPLETED", "shards", code=0)
        head.ask(capsys, **DATA)
        keys.append(json.loads((head.jobs / "new" / "task.json").read_text())["key"])
    assert keys[0] == keys[1] != keys[2] != "abc"


def test_folders_of_outputs_are_made_when_the_job_starts(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GPUCLUSTER_OUTPUT_SHARDS", str(tmp_path / "a" / "b"))
    chain.make_outputs()
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("GPUCLUSTER_OUTPUT_SHARDS", str(tmp_path / "file" / "b"))
    with pytest.raises(GaveUp, match="the output shards: .*/file/b: Not a directory"):
        chain.make_outputs()
