"""Sweeps and arrays: what may be asked for, the one script, the folders, and what is said of the elements."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from gpucluster import account, cli
from gpucluster.cli import results
from gpucluster.cli.jobs import merged
from gpucluster.config import loads
from gpucluster.errors import JobFailedError, JobSpecError, UsageError
from gpucluster.following import arrays as following
from gpucluster.following import jobs, logs, metrics
from gpucluster.following.tasks import of_project
from gpucluster.head import queue
from gpucluster.head.arrays import counts
from gpucluster.job import SbatchRequest, arrays, load
from gpucluster.layout import expand
from gpucluster.submission import again
from gpucluster.submission import submit as submission
from gpucluster.submission import task as files_of
from gpucluster_job.task import runs
from gpucluster_job.task.asked import Asked
from tests.in_process import InProcessRemote

LAYOUT = expand(
    loads(
        "name: Test\nregion: us-east-1\nsoftware: {frameworks: [torch, mxnet]}\n"
        "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
        "parameter_servers: {instance_type: m4.16xlarge}\n"
        "storage:\n  - {mount: /fsx, type: fsx-lustre, data_repositories: [{path: /d, s3: 's3://bucket/d'}]}\n"
        "  - {mount: /tmpfs, type: fsx-lustre, lifetime: jobs, data_repositories: [{path: /d, s3: 's3://bucket/e'}]}\n"
    )
)
COMMAND = ("python", "train.py")


def request(folder="/jobs/a", **flags) -> SbatchRequest:
    spec = load(LAYOUT, flags={"command": COMMAND, "name": "digits"} | flags)
    return SbatchRequest.from_spec(spec, LAYOUT, str(folder))


def options(**flags) -> list[str]:
    return [line[8:] for line in request(**flags).materialize().splitlines() if line.startswith("#SBATCH ")]


def refused(**flags) -> str:
    with pytest.raises(JobSpecError) as caught:
        request(**flags)
    return " / ".join(f"{notice.key}: {notice.message} | {notice.hint}" for notice in caught.value.problems)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("0.1,0.01", ("0.1", "0.01")),
        ("1..5", ("1", "2", "3", "4", "5")),
        ("3..1", ("3", "2", "1")),
        ("10..50..20", ("10", "30", "50")),
        ("-1..1", ("-1", "0", "1")),
        ("a, 1..2", ("a", "1", "2")),
        ("../data", ("../data",)),
        (0.5, ("0.5",)),
        ([1, "x,y"], ("1", "x,y")),
    ],
)
def test_values(given, values):
    assert request(sweep={"lr": given}).spec.sweep == {"lr": values}


def test_an_element_for_each_combination():
    spec = request(sweep={"lr": "0.1,0.01", "seed": "1..3"}).spec
    assert spec.elements == (0, 1, 2, 3, 4, 5)
    assert [(each["lr"], each["seed"]) for each in arrays.parameters(spec.sweep)] == [
        ("0.1", "1"), ("0.1", "2"), ("0.1", "3"), ("0.01", "1"), ("0.01", "2"), ("0.01", "3"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "option"),
    [
        ({"sweep": {"seed": "1..500"}}, "--array=0-499"),
        ({"sweep": {"seed": "1..6"}, "max_parallel": 2}, "--array=0-5%2"),
        ({"array": "0-11%4"}, "--array=0-11%4"),
        ({"array": "7,1-3,2"}, "--array=1-3,7"),
        ({"array": "0-30:10"}, "--array=0,10,20,30"),
        ({"array": 5}, "--array=5"),
        ({"array": "0-1000"}, "--array=0-1000"),
    ],
)
def test_one_array(flags, option):
    found = options(**flags)
    assert option in found
    assert "--output=/jobs/a/%a/log.txt" in found


def test_a_plain_job_is_no_array():
    found = options()
    assert not [option for option in found if "array" in option]
    assert "--output=/jobs/a/log.txt" in found


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        (COMMAND, "-- python train.py '--lr={lr}' '--seed={seed}'"),
        (("python", "train.py", "--rate={lr}"), "-- python train.py '--rate={lr}'"),
        (("bash", "-c", "./run $GPUCLUSTER_SWEEP_LR"), "-- bash -c './run $GPUCLUSTER_SWEEP_LR'"),
    ],
)
def test_the_command_gets_its_values(command, runs):
    assert request(command=command, sweep={"lr": "1,2", "seed": "3"}).materialize().endswith(f"  {runs}\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"sweep": {"seed": "1..100000"}}, "--sweep.seed: 1..100000 is 100000 values, and Slurm takes at most 1001"),
        (
            {"sweep": {"a": "1..100", "b": "1..1000"}},
            "--sweep: 100 values of a × 1000 values of b are 100000 elements, and Slurm takes at most 1001 elements in "
            "one job (MaxArraySize) | submit several jobs of at most 1001, or let the program loop over some",
        ),
        ({"sweep": {"a.b": "1", "a_b": "2"}}, "--sweep.a_b: a.b and a_b would both be GPUCLUSTER_SWEEP_A_B"),
        ({"sweep": {"1": "1"}}, "--sweep"),
        ({"sweep": {"a": []}}, "--sweep.a: must have at least one entry"),
        ({"sweep": {"a": "1"}, "array": "0-1"}, "--array: a sweep is already an array"),
        ({"array": "0-100000"}, "--array: the greatest index is 1000 (Slurm's MaxArraySize), got 100000"),
        ({"array": "5-3"}, "--array: names no index"),
        ({"array": "a"}, "--array: must be indexes such as 0-11"),
        ({"array": "0-5%0"}, "--array: must be indexes such as 0-11"),
        ({"array": "0-5%2", "max_parallel": 3}, "--max-parallel: array already sets how many run at a time"),
        ({"max_parallel": 3}, "--max-parallel: only for a job with a sweep or an array"),
        ({"array": "0-1", "launcher": "mxnet-ps", "servers": {"nodes": 1}}, "--servers: servers on separate nodes"),
        ({"array": "0-1", "exports": ("/fsx/d",)}, "--exports: are made once, after a whole job"),
        ({"array": "0-1", "command": ("cat", "/tmpfs/d/a")}, "--array: /tmpfs is created for a whole job"),
        ({"sbatch_args": ("--array=1-4",)}, "--sbatch-args[0]: the job's key array sets --array"),
    ],
)
def test_refused(flags, said):
    assert refused(**flags).startswith(said)


def test_elements_do_not_each_load_a_folder_from_s3():
    flags = {"channels": {"train": "/fsx/d"}}
    assert "#BB_LUA stage_in path=/fsx/d" in request(**flags).materialize()
    assert "#BB_LUA" not in request(**flags, array="0-1").materialize()


def test_the_summary_says_how_many():
    assert request(sweep={"seed": "1..6"}).summary == "6 elements of 4 ranks on 1 node of train"


# in the format of slurm.squeue_argv(): an array of six elements, two at a time
QUEUE = """\
29_0|COMPLETED|train|1|train-1|0:07|UNLIMITED|2026-11-23T01:00:00|2026-11-23T01:00:01|digits|None
29_1|FAILED|train|1|train-2|0:07|UNLIMITED|2026-11-23T01:00:00|2026-11-23T01:00:01|digits|NonZeroExitCode
29_2|RUNNING|train|1|train-1|0:01|UNLIMITED|2026-11-23T01:00:00|2026-11-23T01:00:09|digits|None
29_3|CONFIGURING|train|1|train-2|0:01|UNLIMITED|2026-11-23T01:00:00|2026-11-23T01:00:09|digits|None
29_4|PENDING|train|1||0:00|UNLIMITED|2026-11-23T01:00:00|N/A|digits|JobArrayTaskLimit
29_5|PENDING|train|1||0:00|UNLIMITED|2026-11-23T01:00:00|N/A|digits|JobArrayTaskLimit
30|RUNNING|train|1|train-3|0:01|UNLIMITED|2026-11-23T01:00:00|2026-11-23T01:00:09|other|None
"""


def test_an_array_is_one_job_with_counts():
    array, other = queue.parse_jobs(QUEUE)
    assert (other.job_id, other.elements) == ("30", ())
    assert (array.job_id, array.state, array.node_list) == ("29", "RUNNING", "train-1,train-2")
    assert counts(array.elements) == {"running": 1, "pending": 3, "completed": 1, "failed": 1}
    assert jobs.describe(array) == (
        "job 29: 1 running, 3 pending, 1 completed, 1 failed (as many elements of the array run as may run at a time)"
    )


# What slurm.squeue_argv() printed on Slurm 24.11.5 for --array=0-5%2: after `scontrol requeue 6_0`, and when 6_5, which
# was still pending, was cancelled and four others had ended.
AFTER_REQUEUE = """\
6_0|PENDING|local|1||0:00|UNLIMITED|2026-11-23T01:39:23|2026-11-23T01:41:24|digits|BeginTime
6_3|PENDING|local|1||0:00|UNLIMITED|2026-11-23T01:39:20|N/A|digits|JobArrayTaskLimit
6_4|PENDING|local|1||0:00|UNLIMITED|2026-11-23T01:39:20|N/A|digits|JobArrayTaskLimit
6_5|PENDING|local|1||0:00|UNLIMITED|2026-11-23T01:39:20|N/A|digits|JobArrayTaskLimit
6_1|RUNNING|local|1|lab|0:01|UNLIMITED|2026-11-23T01:39:20|2026-11-23T01:39:23|digits|None
6_2|RUNNING|local|1|lab|0:01|UNLIMITED|2026-11-23T01:39:20|2026-11-23T01:39:23|digits|None
"""
LATER = """\
6_4|COMPLETED|local|1|lab|0:06|UNLIMITED|2026-11-23T01:39:20|2026-11-23T01:39:30|digits|None
6_1|COMPLETED|local|1|lab|0:06|UNLIMITED|2026-11-23T01:39:20|2026-11-23T01:39:23|digits|None
6_2|COMPLETED|local|1|lab|0:07|UNLIMITED|2026-11-23T01:39:20|2026-11-23T01:39:23|digits|None
6_3|FAILED|local|1|lab|0:06|UNLIMITED|2026-11-23T01:39:20|2026-11-23T01:39:30|digits|NonZeroExitCode
6_0|PENDING|local|1||0:00|UNLIMITED|2026-11-23T01:39:23|2026-11-23T01:41:24|digits|BeginTime
"""


def test_what_slurm_printed():
    (array,) = queue.parse_jobs(AFTER_REQUEUE)
    assert [element.job_id for element in array.elements] == ["6_0", "6_1", "6_2", "6_3", "6_4", "6_5"]
    assert counts(array.elements) == {"running": 2, "pending": 4}
    assert (array.state, array.node_list, array.reason) == ("RUNNING", "lab", "BeginTime")
    (later,) = queue.parse_jobs(LATER)
    assert counts(later.elements) == {"pending": 1, "completed": 3, "failed": 1}
    assert (later.state, later.node_list) == ("PENDING", "")


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("COMPLETED", "COMPLETED"), "COMPLETED"),
        (("COMPLETED", "TIMEOUT"), "TIMEOUT"),
        (("CANCELLED", "COMPLETED"), "CANCELLED"),
        (("FAILED", "PENDING"), "PENDING"),
        (("PENDING", "CONFIGURING", "PENDING"), "CONFIGURING"),
    ],
)
def test_the_state_of_an_array(states, state):
    nodes = {"PENDING": ""}
    lines = [f"29_{i}|{each}|train|1|{nodes.get(each, 'n')}|0:07|U|a|b|digits|None" for i, each in enumerate(states)]
    assert queue.parse_jobs("\n".join(lines))[0].state == state


def test_each_element_of_a_task_has_state_and_runs_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUCLUSTER_ARRAY_DIR", str(tmp_path))
    element = tmp_path / "3"
    element.mkdir()
    assert Asked.read(element).state_folder == element / "state"
    asked = {
        "label": "p/a",
        "folder": f"{tmp_path}/tasks/p/a",
        "state": f"{tmp_path}/tasks/p/a/state",
        "s3": "s3://b/a",
    }
    (element / "task.json").write_text(json.dumps(asked))
    found = Asked.read(element)
    assert (found.label, found.s3, found.state) == ("p/a/3", "s3://b/a/3", f"{tmp_path}/tasks/p/a/3/state")
    assert Asked("", **asked | {"state": "/fsx/p/a"}).of_element("3").state == "/fsx/p/a/3"
    for job_id, code in {"9_3": 1, "29_3": 0}.items():
        result = {"job_id": job_id, "exit_code": code, "reason": None, "started_at": "a", "ended_at": "b"}
        runs.write(found, result)
    assert runs.last(found.runs)["job_id"] == "29_3"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A stand-in for the head node: an sbatch that gives ids from 29 on, and a squeue that prints a file."""
    programs = {
        "sbatch": f'echo "$@" >>"$0.called"; [ ! -e {tmp_path}/full ] || {{ echo "sbatch: error: Batch job submission '
        f'failed: no" >&2; exit 1; }}; echo $((28 + $(wc -l <"$0.called")))',
        "squeue": f"cat {tmp_path}/queue",
    }
    for name, text in programs.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "queue").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    for module in (submission, again):
        monkeypatch.setattr(module, "ENVIRONMENTS", str(tmp_path / "envs"))
    (tmp_path / "envs" / ".wanted" / "torch").mkdir(parents=True)
    (tmp_path / "envs" / ".wanted" / "torch" / "complete").touch()
    return tmp_path


def submitted(cluster: Path, secret=None, **flags) -> Path:
    asked = request(cluster / "jobs" / "digits-1", secrets=tuple(secret or {}), **flags)
    packed = submission.pack(asked, secret or {}, None)
    assert submission.submit(InProcessRemote(), asked, packed).job_id == "29"
    return Path(asked.folder)


def ends(folder: Path, run: str, **codes: int) -> None:
    """Writes results like the runtime; exit codes by index: e0=0."""
    for name, code in codes.items():
        index = name[1:]
        metrics = {"accuracy": {"last": 0.5 + int(index) / 10, "values": [1.0] * 1000}}
        result = {"job_id": f"{run}_{index}", "exit_code": code, "nodes": 1, "node_list": ["train-1"]}
        more = {"failed_rank": 0, "failed_node": "train-1", "reason": "boom"} if code else {"failed_rank": None}
        text = json.dumps(result | more | {"metrics": metrics}, indent=2) + "\n"
        (folder / index / "result.json").write_text(text)
        (folder / index / "log.txt").write_text(f"log of {run}_{index}\n")
        (folder / index / "secrets.sh").unlink(missing_ok=True)


def test_five_hundred_elements_are_one_submission(cluster):
    folder = submitted(cluster, sweep={"seed": "1..500"}, env={"A": "b"})
    assert (cluster / "bin" / "sbatch.called").read_text() == f"--parsable {folder}/job.sbatch\n"
    assert (folder / "499" / "lib" / "gpucluster_job" / "job.py").exists()
    assert (folder / "499" / "env.sh").read_text() == "export A=b\n"
    assert (folder / "499" / "preflight" / "expected.json").exists()
    assert not (folder / "499" / "preflight").is_symlink()
    assert json.loads((folder / "499" / "parameters.json").read_text()) == {"seed": "500"}
    assert len((folder / "runs" / "29").read_text().split()) == 500


def test_an_array_that_slurm_has_forgotten(cluster):
    folder = submitted(cluster, sweep={"lr": "0.1,0.01", "seed": "1..2"})
    remote = InProcessRemote()
    ends(folder, "29", e0=0, e1=1, e2=0)
    ending = jobs.ending(remote, "29")
    assert ending and ending.state == "FAILED"
    assert ending.sentence("29") == (
        "job 29 failed: 2 completed, 1 failed, 1 without result; 29_1: rank 0 on train-1 exited with code 1: boom"
    )
    with pytest.raises(JobFailedError) as caught:
        ending.check("29")
    assert caught.value.hint == "`gpucluster results 29` lists its elements"
    (row,) = merged([], jobs.past(remote, 5))
    assert (row["state"], row["reason"]) == ("FAILED", "2 completed, 1 failed, 1 without result")
    found = following.elements(remote, "29")
    assert following.failed(found) == [1, 3]
    assert following.table(found) == [
        ["element", "lr", "seed", "state", "accuracy", "reason"],
        ["29_0", "0.1", "1", "completed", "0.5", ""],
        ["29_1", "0.1", "2", "failed", "0.6", "rank 0 on train-1 exited with code 1: boom"],
        ["29_2", "0.01", "1", "completed", "0.7", ""],
        ["29_3", "0.01", "2", "without result", "", ""],
    ]
    assert "values" not in found[0].result["metrics"]["accuracy"]


def test_an_array_that_runs(cluster):
    folder = submitted(cluster, array="0-5")
    ends(folder, "29", e0=0, e1=1)
    (cluster / "queue").write_text("".join(QUEUE.splitlines(keepends=True)[1:6]))  # Slurm has forgotten the first
    remote = InProcessRemote()
    assert jobs.ending(remote, "29") is None
    (row,) = merged(jobs.current(remote), jobs.past(remote, 5))
    assert (row["state"], row["reason"]) == ("RUNNING", "1 running, 3 pending, 1 completed, 1 failed")
    states = [each.state for each in following.elements(remote, "29")]
    assert states == ["completed", "failed", "running", "pending", "pending", "pending"]
    assert jobs.require(remote, "29_4").state == "PENDING"
    assert jobs.ending(remote, "29_1").state == "FAILED"
    assert jobs.ending(remote, "29_0").state == "COMPLETED"
    assert logs.log(remote, "29_1") == "log of 29_1\n"
    with pytest.raises(UsageError, match="job 29 has a log for each element"):
        logs.log(remote, "29")
    with pytest.raises(UsageError, match="there is no folder .*/digits-1/4/state"):
        jobs.state_folder(remote, "29_4")
    task = {"label": "p/a", "folder": str(cluster), "state": f"{cluster}/state"}
    (folder / "4" / "task.json").write_text(json.dumps(task))
    (cluster / "4" / "state").mkdir(parents=True)
    assert jobs.state_folder(remote, "29_4") == f"{cluster}/4/state"
    with pytest.raises(UsageError, match="there is no job 29_6"):
        jobs.require(remote, "29_6")


def test_failed_elements_run_again_in_their_folders(cluster):
    folder = submitted(cluster, {"TOKEN": "it's s3cret"}, array="0-3%2")
    remote = InProcessRemote()
    ends(folder, "29", e0=0, e1=1, e2=0)
    (folder / "1" / "metrics.jsonl").write_text('{"time_s": 1, "values": {"loss": 2}}\n')
    indexes = again.chosen("29", following.elements(remote, "29"), None)
    assert indexes == (1, 3)
    done = again.submit(remote, LAYOUT, "29", indexes, {"TOKEN": "it's s3cret"})
    assert (done.job_id, done.folder) == ("30", str(folder))
    assert (cluster / "bin" / "sbatch.called").read_text().splitlines()[1] == (
        f"--parsable --array=1,3%2 {folder}/job.sbatch"
    )
    assert (folder / "1" / "secrets.sh").stat().st_mode & 0o777 == 0o600
    sourced = subprocess.run(["bash", "-c", f". {folder}/3/secrets.sh; echo $TOKEN"], capture_output=True, check=True)
    assert sourced.stdout.decode().strip() == "it's s3cret"
    assert logs.log(remote, "29_1") == "log of 29_1\n"
    assert logs.log(remote, "30_1") == ""
    assert [list(metrics.points(remote, each)) for each in ("29_1", "30_1", "29_3", "30_3")] == [["loss"], [], [], []]
    ends(folder, "30", e1=0, e3=1)
    assert [each.job_id for each in following.elements(remote, "29")] == ["29_0", "30_1", "29_2", "30_3"]
    assert [each.state for each in following.elements(remote, "30")] == ["completed", "failed"]
    first, second = merged([], jobs.past(remote, 5))
    assert first["reason"] == "2 completed, 1 failed, 1 without result"
    assert second["reason"] == "1 completed, 1 failed"
    assert jobs.ending(remote, "29_1").state == "FAILED"
    assert jobs.ending(remote, "30_1").state == "COMPLETED"
    assert again.submit(remote, LAYOUT, "29", (3,), {"TOKEN": "x"}).job_id == "31"
    assert logs.log(remote, "30_3") == "log of 30_3\n"
    assert logs.log(remote, "29_1") == "log of 29_1\n"


def test_an_element_never_runs_twice_at_once(cluster, monkeypatch):
    """Like a submission, it takes the task's lock and looks for jobs that have not ended."""
    monkeypatch.setattr(account, "home", lambda: str(cluster))
    task = cluster / "tasks" / "p" / "digits"
    asked = request(cluster / "jobs" / "digits-1", name="digits", project="p", array="0-2")
    more = files_of.files(asked, None, None)
    submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, None, None, more))
    folder = Path(asked.folder)
    ends(folder, "29", e0=1, e1=1)

    def refusal(queue: str) -> str:
        (cluster / "queue").write_text(queue)
        with pytest.raises(UsageError) as caught:
            again.submit(InProcessRemote(), LAYOUT, "29", (0, 1), {})
        return caught.value.message

    assert "job 29_1 has not ended" in refusal(f"29_1 COMPLETING {folder}/code\n29_2 RUNNING {folder}/code\n")
    (task / "job").write_text("40 other\n")
    said = refusal(f"40 RUNNING {cluster}/jobs/other/code\n")
    assert "job 40 of the task p/digits has not ended" in said
    (task / "job").write_text("29 digits-1\n")
    with (cluster / "bin" / "sbatch").open("a") as sbatch:
        sbatch.write(f"flock --nonblock {task}/lock true || touch {cluster}/locked\n")
    (cluster / "queue").write_text(f"29_2 RUNNING {folder}/code\n")
    assert again.submit(InProcessRemote(), LAYOUT, "29", (0, 1), {}).job_id == "30"
    assert (cluster / "locked").exists()
    assert (task / "job").read_text() == "30 digits-1\n"
    assert "job 30_0 has not ended" in refusal(f"30_0 PENDING {folder}/code\n")
    other = request(cluster / "jobs" / "digits-2", name="digits", project="p", array="0-2")
    (cluster / "queue").write_text(f"29_2 RUNNING {folder}/code\n")
    with pytest.raises(UsageError, match="job 29 of the task p/digits has not ended"):
        more = files_of.files(other, None, None, force=True)
        submission.submit(InProcessRemote(), other, submission.pack(other, {}, None, None, more))


@pytest.mark.parametrize("slurm_has", ["the link", "the folder"])
def test_an_element_never_runs_twice_at_once_where_the_home_is_a_link(cluster, monkeypatch, slurm_has):
    """Slurm has the folder as --chdir gave it; the jobs' folders are found with links resolved."""
    (cluster / "storage").mkdir()
    (cluster / "home").symlink_to(cluster / "storage")
    monkeypatch.setattr(account, "home", lambda: str(cluster / "home"))
    asked = request(cluster / "home" / "jobs" / "digits-1", array="0-2")
    submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, None))
    folder = Path(asked.folder)
    assert f"#SBATCH --chdir={folder}/code\n" in (folder / "job.sbatch").read_text()
    ends(folder, "29", e0=1, e1=1)
    workdir = (folder if slurm_has == "the link" else folder.resolve()) / "code"
    (cluster / "queue").write_text(f"29_1 COMPLETING {workdir}\n")
    with pytest.raises(UsageError, match="job 29_1 has not ended"):
        again.submit(InProcessRemote(), LAYOUT, "29", (0, 1), {})
    (cluster / "queue").write_text(f"29_1 COMPLETING {cluster}/home/jobs/digits-10/code\n")
    assert again.submit(InProcessRemote(), LAYOUT, "29", (0, 1), {}).job_id == "30"


def test_results_without_a_job_are_those_of_the_newest_array(cluster, monkeypatch, capsys):
    monkeypatch.setattr(results, "head", lambda *asked: nullcontext(InProcessRemote()))
    assert cli.main(["results"]) == 2
    assert "error: none of the 100 newest jobs is a sweep or an array" in capsys.readouterr().err
    folder = submitted(cluster, sweep={"lr": "0.1,0.2"})
    ends(folder, "29", e0=0, e1=1)
    (folder.parent / "by-id" / "30").mkdir()  # a newer job, which is no array
    assert cli.main(["results"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["29_0", "0.1", "completed"]


def test_elements_that_slurm_refuses_are_as_before(cluster):
    folder = submitted(cluster, array="0-1")
    ends(folder, "29", e0=1)
    (folder / "0" / "started").write_text("by gpucluster_job\n")
    (folder / "0" / "metrics.jsonl").write_text("lines\n")
    before = sorted((str(path), path.read_text()) for path in folder.glob("[01]/*") if path.is_file())
    (cluster / "full").touch()
    with pytest.raises(UsageError, match="Slurm rejected the job: no"):
        again.submit(InProcessRemote(), LAYOUT, "29", (0, 1), {})
    assert sorted((str(path), path.read_text()) for path in folder.glob("[01]/*") if path.is_file()) == before


def test_elements_that_cannot_run_again(cluster):
    submitted(cluster, array="0-5")
    (cluster / "queue").write_text(QUEUE)
    found = following.elements(InProcessRemote(), "29")
    with pytest.raises(UsageError, match="job 29_2 is running"):
        again.chosen("29", found, 2)
    with pytest.raises(UsageError, match="job 29 has no element 6"):
        again.chosen("29", found, 6)
    assert again.chosen("29", found, 0) == (0,)


def test_a_sweep_in_a_projects_tree_after_slurm_has_forgotten_it(cluster, monkeypatch):
    monkeypatch.setattr(account, "home", lambda: str(cluster))
    asked = request(cluster / "jobs" / "digits-1", name="digits", project="p", array="0-1")
    submission.submit(
        InProcessRemote(), asked, submission.pack(asked, {}, None, None, files_of.files(asked, None, None))
    )
    ends(Path(asked.folder), "29", e0=0, e1=1)

    def description() -> str:
        return of_project(InProcessRemote(), "p")["digits"].describe(None)

    assert description() == "job 29 failed: 1 completed, 1 failed"
    ends(Path(asked.folder), "29", e1=0)
    assert description() == "job 29 completed"
