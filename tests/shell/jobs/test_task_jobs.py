"""A job's state, the record of its run, and runs after the time limit: the real runtime with a stand-in for Slurm."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer
from stubbed_jobs import change, finished, prepare, wait_for

# Gradient descent for a line through points; each step is saved under another name, and renamed.
TRAIN = """
import json, os, time
state = os.path.join(os.environ["GPUCLUSTER_STATE"], "weights.json")
step, a, b = json.load(open(state)) if os.path.exists(state) else (0, 0.0, 0.0)
print("begins at step", step, flush=True)
while step < int(os.environ["STEPS"]):
    x = step % 7; error = a * x + b - (3 * x + 1)
    a, b, step = a - 0.02 * error * x, b - 0.02 * error, step + 1
    json.dump([step, a, b], open(state + ".tmp", "w"))
    os.replace(state + ".tmp", state)
    time.sleep(float(os.environ["PAUSE"]))
print("weights", a, b)
"""
SCONTROL = """
case $* in
  requeue*|update*) echo "scontrol $*" >>"$STUBS/calls" ;;
esac
"""


def job(tmp_path: Path, asked: dict, steps: int, pause: float, **keys) -> dict:
    flags = {"nodes": 1, "ntasks_per_node": 1, "launcher": "srun", "command": ("python", "-c", TRAIN)} | keys
    given = prepare(tmp_path, {}, flags)
    (tmp_path / "job" / "task.json").write_text(json.dumps(asked))
    with (tmp_path / "stubs" / "scontrol").open("a") as stub:
        stub.write('[ "$*" != "show hostnames train-1" ] || echo train-1\n' + SCONTROL)
    given["env"] |= {"SLURM_JOB_NODELIST": "train-1", "STEPS": str(steps), "PAUSE": str(pause)}
    return given


def task(tmp_path: Path, **more) -> dict:
    folder = tmp_path / "tasks" / "digits" / "small"
    return {"label": "digits/small", "folder": str(folder), "state": f"{folder}/state", "key": "abc"} | more


def calls(tmp_path: Path) -> list[str]:
    path = tmp_path / "stubs" / "calls"
    return [line for line in path.read_text().splitlines() if line.startswith("scontrol")] if path.exists() else []


def run(given: dict, tmp_path: Path):
    process = subprocess.run(**given, timeout=60, check=False)
    return finished(process.returncode, tmp_path / "job")


def undisturbed(steps: int) -> str:
    a = b = 0.0
    for step in range(steps):
        x = step % 7
        error = a * x + b - (3 * x + 1)
        a, b = a - 0.02 * error * x, b - 0.02 * error
    return f"weights {a} {b}"


def test_the_state_is_there_for_the_next_run_and_each_run_leaves_a_record(tmp_path):
    asked = task(tmp_path)
    code, result, log, folder = run(job(tmp_path, asked, 3, 0), tmp_path)
    assert (code, result["exit_code"]) == (0, 0), log
    record = json.loads(Path(asked["folder"], "runs", "77.json").read_text())
    assert (record["exit_code"], record["key"], record["job_folder"]) == (0, "abc", str(folder))
    again = subprocess.run(
        ["bash", str(folder / "job.sbatch")], env=_environment(tmp_path, 5), cwd=folder, capture_output=True, text=True
    )
    assert "begins at step 3" in again.stdout, again.stdout + again.stderr
    assert f"[state] {asked['state']} is as the last run left it" in again.stdout
    assert undisturbed(5) in again.stdout


def _environment(tmp_path: Path, steps: int) -> dict:
    return {
        "PATH": f"{tmp_path / 'stubs'}:{os.environ['PATH']}", "HOME": str(tmp_path), "STUBS": str(tmp_path / "stubs"),
        "SLURM_JOB_ID": "78", "SLURM_JOB_NODELIST": "train-1", "SLURM_CPUS_ON_NODE": "8", "SLURMD_NODENAME": "train-1",
        "STEPS": str(steps), "PAUSE": "0",
    }  # fmt: skip


def test_a_job_without_a_name_keeps_its_state_in_its_folder(tmp_path):
    given = job(tmp_path, {}, 2, 0)
    (tmp_path / "job" / "task.json").unlink()
    code, result, log, folder = run(given, tmp_path)
    assert code == 0, log
    assert json.loads((folder / "state" / "weights.json").read_text())[0] == 2
    assert "run" not in result and "state" not in result


def test_a_failed_run_leaves_a_record_that_no_job_depends_on(tmp_path):
    asked = task(tmp_path)
    code, _, log, _ = run(job(tmp_path, asked, 0, 0, command=("false",)), tmp_path)
    assert code == 1, log
    assert json.loads(Path(asked["folder"], "runs", "77.json").read_text())["exit_code"] == 1


def test_fresh_state_is_deleted_only_before_the_first_run(tmp_path):
    asked = task(tmp_path, clean=True)
    Path(asked["state"]).mkdir(parents=True)
    Path(asked["state"], "weights.json").write_text("[9, 0.0, 0.0]")
    given = job(tmp_path, asked, 2, 0)
    code, _, log, _ = run(given, tmp_path)
    assert code == 0 and "begins at step 0" in log
    assert f"[state] {asked['state']} was deleted, as --clean-state asks" in log
    given["env"]["SLURM_RESTART_COUNT"] = "1"
    _, _, log, _ = run(given, tmp_path)
    assert "begins at step 2" in log


def test_a_job_continues_after_its_time_limit_until_it_completes(tmp_path):
    asked, steps = task(tmp_path, resubmit_limit=5), 30
    given = job(tmp_path, asked, steps, 0.1, time="1:00")
    change(tmp_path, "task/limit.py", "STOP_BEFORE_S = 30", "STOP_BEFORE_S = 0")
    for restarts in range(5):
        given["env"] |= {"SLURM_JOB_END_TIME": str(int(time.time()) + 3), "SLURM_RESTART_COUNT": str(restarts)}
        code, result, log, folder = run(given, tmp_path)
        if code == 0:
            break
        assert result["reason"] == "stopped at its time limit"
        assert result["run"] == restarts + 1
        assert calls(tmp_path)[-2:] == ["scontrol requeue 77", "scontrol update JobId=77 StartTime=now+20"]
    assert code == 0 and restarts >= 1, log
    assert undisturbed(steps) in log
    assert f"[launcher] this is run {restarts + 1} of at most 6" in log.splitlines()
    assert (folder / "run.txt").read_text() == f"run {restarts + 1} of at most 6\n"
    assert len(calls(tmp_path)) == 2 * restarts  # Slurm starts no run after the one that succeeded
    kept = [json.loads((folder / "results" / f"{run}.json").read_text())["run"] for run in range(1, restarts + 1)]
    assert kept == list(range(1, restarts + 1))


def test_a_job_continues_only_as_often_as_allowed(tmp_path):
    given = job(tmp_path, {"resubmit_limit": 1}, 10_000, 0.1, time="1:00")
    change(tmp_path, "task/limit.py", "STOP_BEFORE_S = 30", "STOP_BEFORE_S = 0")
    (tmp_path / "job" / "results").mkdir()
    (tmp_path / "job" / "results" / "1.json").write_text("{}")
    given["env"]["SLURM_JOB_END_TIME"] = str(int(time.time()) + 2)
    code, result, log, _ = run(given, tmp_path)
    assert code != 0
    assert (result["run"], calls(tmp_path)) == (2, [])
    assert "error: stopped at its time limit, in the last of its 2 runs" in log


def test_a_job_says_when_its_ranks_end(tmp_path):
    """Slurm rounds a limit up to whole minutes."""
    given = job(tmp_path, {"resubmit_limit": 5}, 0, 0, time="1:20")
    given["env"]["SLURM_JOB_END_TIME"] = str(ends_at := int(time.time()) + 120)
    _, _, log, _ = run(given, tmp_path)
    at = time.strftime("%H:%M:%S UTC", time.gmtime(ends_at - 30))
    said = rf"\[launcher\] the ranks end in (8\d|90) s, at {at}: 30 s before the time limit, in whole minutes of Slurm"
    assert re.search(f"^{said}$", log, re.MULTILINE), log


def test_a_failed_job_is_not_continued(tmp_path):
    given = job(tmp_path, {"resubmit_limit": 5}, 0, 0, command=("bash", "-c", "exit 3"), time="1:00")
    given["env"]["SLURM_JOB_END_TIME"] = str(int(time.time()) + 3600)
    code, _, _, _ = run(given, tmp_path)
    assert (code, calls(tmp_path)) == (3, [])


@pytest.mark.parametrize("more_s", [0, 3600])
def test_a_time_limit_that_was_raised_counts(tmp_path, more_s):
    given = job(tmp_path, {"resubmit_limit": 5}, 40, 0.1, time="1:00")
    change(tmp_path, "task/limit.py", "STOP_BEFORE_S = 30", "STOP_BEFORE_S = 0")
    ends_at = int(time.time()) + 2
    shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(ends_at + more_s))
    with (tmp_path / "stubs" / "scontrol").open("a") as stub:
        stub.write(f'[ "$*" != "--oneliner show job 77" ] || echo "JobId=77 Restarts=0 EndTime={shown} Deadline=N/A"\n')
    given["env"]["SLURM_JOB_END_TIME"] = str(ends_at)
    code, _, _, _ = run(given, tmp_path)
    assert (code == 0) == bool(more_s)


def test_a_program_that_exits_at_the_signal_is_continued(tmp_path):
    program = 'trap "exit 143" USR1; touch "$OUT/up"; while :; do sleep 0.1; done'
    keys = {"command": ("bash", "-c", program), "time": "1:00:00", "signal": "USR1@60"}
    given = job(tmp_path, {"resubmit_limit": 5}, 0, 0, **keys)
    process = subprocess.Popen(**given)
    wait_for((tmp_path / "up").exists)
    process.send_signal(signal.SIGUSR1)
    process.wait(30)
    assert calls(tmp_path)[0] == "scontrol requeue 77", (tmp_path / "job" / "log.txt").read_text()


def test_a_job_that_slurm_stops_at_its_limit_is_continued(tmp_path):
    """For example the limit was shortened, or the job's packages were still being installed."""
    given = job(tmp_path, {"resubmit_limit": 5}, 0, 0, command=("bash", "-c", 'touch "$OUT/up"; sleep 60'), time="1:00")
    process = subprocess.Popen(**given)
    wait_for((tmp_path / "up").exists)
    with (tmp_path / "job" / "log.txt").open("a") as log:
        log.write("slurmstepd: error: *** JOB 77 ON train-1 CANCELLED AT 2026-11-23T01:00:00 DUE TO TIME LIMIT ***\n")
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert calls(tmp_path) == ["scontrol requeue 77", "scontrol update JobId=77 StartTime=now+20"]


def test_a_cancelled_job_is_not_continued(tmp_path):
    given = job(tmp_path, {"resubmit_limit": 5}, 0, 0, command=("bash", "-c", 'touch "$OUT/up"; sleep 60'), time="1:00")
    given["env"]["SLURM_JOB_END_TIME"] = str(int(time.time()) + 3600)
    process = subprocess.Popen(**given)
    wait_for((tmp_path / "up").exists)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert calls(tmp_path) == []


def test_a_job_that_is_cancelled_after_its_signal_is_not_continued(tmp_path):
    program = 'trap "" USR1; trap "exit 143" TERM; touch "$OUT/up"; while :; do sleep 0.1; done'
    keys = {"command": ("bash", "-c", program), "time": "1:00:00", "signal": "USR1@60"}
    given = job(tmp_path, {"resubmit_limit": 5}, 0, 0, **keys)
    given["env"]["SLURM_JOB_END_TIME"] = str(int(time.time()) + 3600)
    process = subprocess.Popen(**given)
    wait_for((tmp_path / "up").exists)
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: "sending SIGUSR1" in (tmp_path / "job" / "log.txt").read_text())
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert json.loads((tmp_path / "job" / "result.json").read_text())["reason"] == "cancelled"
    assert calls(tmp_path) == []


# Slurm's answer for a job that it ends, and a `scontrol requeue` that fails.
CANCELLED = '[ "$*" != "--oneliner show job 77" ] || echo "JobId=77 JobState=COMPLETING Reason=None Restarts=0 "\n'
AT_ITS_LIMIT = CANCELLED.replace("None", "TimeLimit")
FAILS = '[ "$1" != requeue ] || { echo "slurm_requeue error: Unable to contact slurm controller"; exit 1; }\n'
REQUEUED = FAILS + CANCELLED.replace("COMPLETING Reason=None Restarts=0", "PENDING Reason=None Restarts=1")


@pytest.mark.parametrize(
    ("stub", "requeues", "kept", "secret"),
    [
        (AT_ITS_LIMIT, True, True, True),
        (CANCELLED, False, False, False),
        (FAILS, True, False, False),
        (REQUEUED, True, False, True),  # Slurm requeues it, so the next run needs its secrets
    ],
    ids=["limit", "cancelled", "no answer", "requeued"],
)
def test_a_run_counts_only_if_slurm_runs_the_job_again(tmp_path, stub, requeues, kept, secret):
    given = job(tmp_path, {"resubmit_limit": 5}, 10_000, 0.1, time="1:00")
    change(tmp_path, "task/limit.py", "STOP_BEFORE_S = 30", "STOP_BEFORE_S = 0")
    with (tmp_path / "stubs" / "scontrol").open("a") as scontrol:
        scontrol.write(stub)
    (tmp_path / "job" / "secrets.sh").touch()
    given["env"]["SLURM_JOB_END_TIME"] = str(int(time.time()) + 2)
    run(given, tmp_path)
    assert ("scontrol requeue 77" in calls(tmp_path)) == requeues
    assert list((tmp_path / "job" / "results").iterdir()) == [tmp_path / "job" / "results" / "1.json"] * kept
    assert (tmp_path / "job" / "secrets.sh").exists() == secret


@pytest.fixture
def s3(monkeypatch):
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **_lower(keys)).create_bucket(Bucket="mine")
    yield {"AWS_ENDPOINT_URL": endpoint, **keys}
    server.stop()


def _lower(keys: dict) -> dict:
    return {name.lower(): value for name, value in keys.items() if name != "AWS_REGION"}


def in_s3(tmp_path: Path, s3: dict, uri: str, steps: int, **keys) -> dict:
    given = job(tmp_path, task(tmp_path, s3=uri), steps, 0, **keys)
    change(tmp_path, "ourselves.py", "/usr/bin/python3", sys.executable)  # a node's Python has boto3
    given["env"] |= s3
    return given


def test_another_cluster_continues_from_the_copy_in_s3(tmp_path, s3):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    uri = "s3://mine/states/digits/small"
    code, result, log, _ = run(in_s3(tmp_path / "a", s3, uri, 3), tmp_path / "a")
    assert (code, result["state"]) == (0, {"s3": uri, "files": 1, "problem": None}), log
    code, _, log, _ = run(in_s3(tmp_path / "b", s3, uri, 5), tmp_path / "b")
    assert code == 0 and f"[state] 1 files were restored from {uri}" in log
    assert "begins at step 3" in log and undisturbed(5) in log


def test_a_state_folder_that_was_deleted_is_restored(tmp_path, s3):
    uri = "s3://mine/deleted/digits/small"
    given = in_s3(tmp_path, s3, uri, 3)
    code, _, log, _ = run(given, tmp_path)
    assert code == 0, log
    shutil.rmtree(task(tmp_path)["state"])
    given["env"]["STEPS"] = "5"
    code, result, log, _ = run(given, tmp_path)
    assert (code, result["state"]["files"]) == (0, 1), log
    assert f"[state] 1 files were restored from {uri}, because {task(tmp_path)['state']} was missing" in log
    assert "begins at step 3" in log and undisturbed(5) in log


def test_access_denied_to_the_bucket_causes_only_a_warning(tmp_path, s3):
    code, result, log, _ = run(in_s3(tmp_path, s3, "s3://no-such-bucket-1/states", 2), tmp_path)
    assert code == 0 and undisturbed(2) in log
    assert result["exit_code"] == 0
    problem = result["state"]["problem"]
    assert problem.startswith("s3://no-such-bucket-1/states: no such bucket: ")
    assert [line for line in log.splitlines() if "warning" in line] == [
        f"[state] warning: the state in s3://no-such-bucket-1/states cannot be read, and is not changed: {problem}"
    ]


STOPS_THE_COPY = 'kill -STOP $(pgrep -f "[s]tate_sync $GPUCLUSTER_STATE .* watch$"); touch "$OUT/done"'


def test_a_last_copy_that_hangs_does_not_prevent_the_result(tmp_path, s3):
    """Slurm kills it 10 s after a `scancel`, because it ignores signals by then."""
    given = in_s3(tmp_path, s3, "s3://mine/states", 0, command=("bash", "-c", STOPS_THE_COPY))
    result = tmp_path / "job" / "result.json"
    process = subprocess.Popen(**given, start_new_session=True)
    try:
        wait_for(result.exists)
        assert (tmp_path / "done").exists()
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    found = json.loads(result.read_text())
    assert found["exit_code"] == 0
    assert found["state"] == {"s3": "s3://mine/states", "problem": "the last copy was not finished"}


def test_a_full_disk_for_the_copys_records_causes_only_a_warning(tmp_path, s3):
    """The folder beside the state, with the record of the known copy."""
    given = in_s3(tmp_path, s3, "s3://mine/states", 2)
    kept = tmp_path / "tasks" / "digits" / "small" / ".state.copied"
    kept.parent.mkdir(parents=True)
    kept.symlink_to("/dev/full")
    code, result, log, _ = run(given, tmp_path)
    assert code == 0 and undisturbed(2) in log
    assert "No space left on device" in result["state"]["problem"]
    assert log.count("[state] warning") == 1
