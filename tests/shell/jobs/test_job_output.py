"""`output` with the real runtime: a link to the log while the job runs, and a copy at every end of the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from stubbed_jobs import as_element, change, finished, prepare, wait_for

STOPPED = 143
WAITS = ("bash", "-c", 'echo started; touch "$OUT/up"; sleep 60')
STEPD = "slurmstepd: error: *** JOB 77 ON train-1 CANCELLED AT 2026-11-23T01:00:00 ***\n"


def job(tmp_path: Path, output: str, *command: str, **keys) -> dict:
    one = {"nodes": 2, "ntasks_per_node": 1, "launcher": "srun", "command": command or ("echo", "hello")}
    prepared = prepare(tmp_path, {}, one | {"output": output} | keys)
    prepared["env"]["SLURM_JOB_NAME"] = "digits"
    return prepared


def run(given: dict, tmp_path: Path, **environment: str):
    """-> exit code, result, log, folder"""
    given = given | {"env": given["env"] | environment}
    return finished(subprocess.run(**given, timeout=60, check=False).returncode, tmp_path / "job")


def is_copy(path: Path, log: str) -> bool:
    return not path.is_symlink() and path.read_text() == log


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".gpucluster")]


@pytest.mark.parametrize("pattern", ["logs/a/%x-%j.out", "~/logs/a/%x-%j.out"])
def test_the_log_is_in_the_home_directory_too(tmp_path, pattern):
    program = 'cd; test "$(readlink logs/a/*)" = "$OUT/job/log.txt" && cp logs/a/* "$OUT/seen-$RANK"; echo bye'
    code, _, log, folder = run(job(tmp_path, pattern, "bash", "-c", program), tmp_path)
    place = tmp_path / "logs" / "a" / "digits-77.out"
    assert (code, log.count(" bye\n")) == (0, 2), log
    assert (tmp_path / "seen-0").is_file() and (tmp_path / "seen-1").is_file(), "the ranks saw the link"
    assert is_copy(place, log)
    assert left_over(place.parent) == []
    (folder / "log.txt").unlink()
    assert place.read_text() == log


def test_the_log_of_a_failed_job(tmp_path):
    code, _, log, _ = run(job(tmp_path, "%j.out", "bash", "-c", "echo boom; exit 3"), tmp_path)
    assert code == 3
    assert log.splitlines()[-1].startswith("error: rank ")
    assert is_copy(tmp_path / "77.out", log)


def test_the_log_of_a_job_that_does_not_start(tmp_path):
    given = job(tmp_path, "%j.out")
    (tmp_path / "stubs" / "scontrol").write_text("#!/bin/sh\n")
    code, _, log, _ = run(given, tmp_path)
    assert code == 1 and "error: the job has 0 nodes" in log
    assert is_copy(tmp_path / "77.out", log)


def test_the_log_of_a_cancelled_job_has_slurms_line(tmp_path):
    process = subprocess.Popen(**job(tmp_path, "%j.out", *WAITS))
    wait_for((tmp_path / "up").exists)
    with (tmp_path / "job" / "log.txt").open("a") as log:
        log.write(STEPD)
    process.send_signal(signal.SIGTERM)
    _, result, log, _ = finished(process.wait(30), tmp_path / "job")
    assert result["reason"] == "cancelled"
    assert STEPD in log and log.endswith("error: cancelled\n")
    assert is_copy(tmp_path / "77.out", log)


@pytest.mark.parametrize("again", [False, True])
def test_a_stopped_job_records_its_end_before_its_log_is_copied(tmp_path, again):
    """Slurm kills a stopped job after 10 s (KillWait), and a large log may take longer. A run that is followed by
    another leaves the link."""
    given, task = job(tmp_path, "%j.out", *WAITS), tmp_path / "tasks" / "digits" / "small"
    asked = {"label": "digits/small", "folder": str(task), "state": f"{task}/state", "key": "abc"}
    (tmp_path / "job" / "task.json").write_text(json.dumps(asked))
    with (tmp_path / "stubs" / "scontrol").open("a") as stub:
        stub.write(f'[ "$*" != "--oneliner show job 77" ] || echo "JobId=77 JobState=PENDING Restarts={int(again)} "\n')
    change(tmp_path, "log_place.py", "shutil.copyfileobj(log, file)", "os.kill(os.getpid(), 9)")
    process, place = subprocess.Popen(**given), tmp_path / "77.out"
    wait_for((tmp_path / "up").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == (STOPPED if again else -signal.SIGKILL)
    assert place.is_symlink() and [path.name for path in (task / "runs").iterdir()] == ["77.json"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_requeued_job_has_the_log_of_both_runs(tmp_path, killed):
    """A run that was killed leaves the link, and perhaps the file that it was copying to."""
    program = 'grep -q "run 0" "$OUT/77.out"; echo run ${SLURM_RESTART_COUNT:-0} found $?'
    given, place = job(tmp_path, "%j.out", "bash", "-c", program, nodes=1), tmp_path / "77.out"
    given["env"]["SLURM_JOB_NODELIST"] = "train-1"
    with (tmp_path / "stubs" / "scontrol").open("a") as stub:
        stub.write('[ "$*" != "show hostnames train-1" ] || echo train-1\n')
    code, _, log, folder = run(given, tmp_path)
    assert code == 0 and " run 0 found 1\n" in log and is_copy(place, log), log
    if killed:
        place.unlink()
        place.symlink_to(folder / "log.txt")
        (tmp_path / ".gpucluster-77.new").write_text("half of a log")
    code, _, log, _ = run(given, tmp_path, SLURM_RESTART_COUNT="1")
    assert code == 0 and " run 0 found 1\n" in log and " run 1 found 0\n" in log, log
    assert is_copy(place, log)
    assert left_over(tmp_path) == []


def test_each_element_has_a_copy_of_its_own_log(tmp_path):
    given = job(tmp_path, "logs/%A_%2a-%j.out", "bash", "-c", "echo index $SLURM_ARRAY_TASK_ID", array="2,5")
    for index, job_id in ((2, "30"), (5, "29")):
        process = subprocess.run(**as_element(given, "29", index, job_id), timeout=60, check=False)
        code, _, log, _ = finished(process.returncode, tmp_path / "job" / str(index))
        assert code == 0 and f" index {index}\n" in log
        assert is_copy(tmp_path / "logs" / f"29_0{index}-{job_id}.out", log)


def test_a_file_that_was_there_is_replaced(tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "a.out").symlink_to("old")
    _, _, log, _ = run(job(tmp_path, "a.out"), tmp_path)
    assert is_copy(tmp_path / "a.out", log)
    assert (tmp_path / "old").read_text() == "old"


def test_the_job_that_started_last_has_the_place(tmp_path):
    """While it runs, its link is not replaced by the log of a job that ends earlier."""
    program = 'ln -sfn "$OUT/of-another-job" "$OUT/a.out"'
    code, _, _, _ = run(job(tmp_path, "a.out", "bash", "-c", program), tmp_path)
    assert code == 0
    assert os.readlink(tmp_path / "a.out") == str(tmp_path / "of-another-job")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("a-file/b.out", "Not a directory"),
        ("a-folder", "Is a directory"),
        ("link-to-a-folder", "Is a directory"),
        ("a-pipe", "exists and is not a file"),
        pytest.param("x" * 256, "File name too long", id="long-name"),
    ],
)
def test_a_path_that_cannot_be_written_is_a_warning(tmp_path, output, said):
    """No test of permissions: the tests' user may be root."""
    (tmp_path / "a-file").write_text("")
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "link-to-a-folder").symlink_to("a-folder")
    os.mkfifo(tmp_path / "a-pipe")
    code, result, log, folder = run(job(tmp_path, output), tmp_path)
    assert (code, result["exit_code"], result["reason"]) == (0, 0, None)
    warning = f"warning: output: {tmp_path}/{output}: {said}; the log is only in {folder}/log.txt\n"
    assert log.startswith(warning) and log.count("warning: output") == 1
    assert " hello\n" in log
    assert (tmp_path / "link-to-a-folder").is_symlink() and not list((tmp_path / "a-folder").iterdir())


def test_a_pattern_without_a_value_on_the_node_is_a_warning(tmp_path):
    """Such as %u, if the node cannot ask the site's directory of accounts."""
    given = job(tmp_path, "%x.out")
    del given["env"]["SLURM_JOB_NAME"]
    code, _, log, folder = run(given, tmp_path)
    said = "has no value on this node: SLURM_JOB_NAME"
    assert log.startswith(f"warning: output: %x.out: {said}; the log is only in {folder}/log.txt\n")
    assert code == 0 and " hello\n" in log


def test_a_disk_that_is_full_at_the_end_is_a_warning(tmp_path):
    given = job(tmp_path, "logs/a.out", "bash", "-c", "echo hello; exit 3")
    copies = "                shutil.copyfileobj(log, file)\n"
    change(tmp_path, "log_place.py", copies, f'{copies}                open("/dev/full", "w", 1).write("\\n")\n')
    code, result, log, folder = run(given, tmp_path)
    assert (code, result["exit_code"]) == (3, 3)
    place = tmp_path / "logs" / "a.out"
    assert log.splitlines()[-1] == (
        f"warning: output: {place}: No space left on device; the log is only in {folder}/log.txt"
    )
    assert place.is_symlink() and left_over(place.parent) == []


def test_a_path_of_the_log_itself_leaves_it_alone(tmp_path):
    (tmp_path / "by-id").mkdir()
    (tmp_path / "by-id" / "77").symlink_to("../job")
    code, _, log, folder = run(job(tmp_path, "by-id/%j/log.txt"), tmp_path)
    assert code == 0 and " hello\n" in log
    assert not (folder / "log.txt").is_symlink() and "warning" not in log
