"""Ranks that the job itself ends have 5 s to save, whatever their launcher does when it is ended or a rank exits."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from stubbed_jobs import alive, change, finished, prepare, wait_for

from localcloud.testing.patience import stretched

# A rank's process and its program, at once: srun that gets SIGTERM sends SIGKILL to its tasks (_srun_signal_mgr in
# Slurm's src/srun/libsrun/srun_job.c), which on a node reaches all processes of the step's control group.
FORWARDS = """trap 'kill -TERM "${pids[@]}"' TERM\n"""
KILLS = r"""
killed() { local each; for each in $(pgrep -P "$1"); do killed "$each"; done; kill -KILL "$1"; }
forced() { echo "srun: forcing job termination" >&2; for each in "${pids[@]}"; do killed "$each"; done; }
trap forced TERM
"""
# The first rank ends at once, so that its launcher would end the others; the others need two seconds to save.
PROGRAM = """
import os, signal, sys, time
rank, out = os.environ["RANK"], os.environ["OUT"]
def save(number, frame):
    print("saving", flush=True)
    time.sleep(0 if rank == "0" else 2)
    open(out + "/saved" + rank, "w")
    sys.exit(0 if rank == "0" else 143)
def forever(number, frame):
    open(out + "/asked" + rank, "w")
    while True: time.sleep(0.1)
signal.signal(signal.SIGTERM, forever if "forever" in sys.argv else save)
signal.signal(signal.SIGABRT, signal.SIG_IGN)
open(out + "/pid" + rank, "w").write(str(os.getpid()))
while True: time.sleep(0.1)
"""
LAUNCHERS = ["srun", "torchrun", "horovodrun", "mpirun"]
LIMIT = {"time": "1:00"}


def job(tmp_path: Path, *arguments: str, **keys) -> dict:
    given = prepare(tmp_path, {}, {"command": ("python", "-c", PROGRAM, *arguments)} | keys)
    srun = tmp_path / "stubs" / "srun"
    assert FORWARDS in (text := srun.read_text())
    srun.write_text(text.replace(FORWARDS, KILLS))
    return given


def at_its_limit(tmp_path: Path, given: dict) -> tuple[int, dict, str, Path]:
    """Ends it when all ranks run. Slurm answers no call, so no other run follows."""
    (tmp_path / "job" / "task.json").write_text(json.dumps({"resubmit_limit": 1}))
    given["env"]["SLURM_JOB_END_TIME"] = str(int(time.time() + 30 + stretched(4)))
    return finished(subprocess.run(**given, timeout=120, check=False).returncode, tmp_path / "job")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_all_ranks_save_when_the_time_limit_is_near(tmp_path: Path, launcher: str) -> None:
    code, result, log, _ = at_its_limit(tmp_path, job(tmp_path, launcher=launcher, **LIMIT))
    assert (code, result["reason"]) == (143, "stopped at its time limit"), log
    assert sorted(path.name for path in tmp_path.glob("saved*")) == [f"saved{rank}" for rank in range(4)], log
    assert log.count("] saving") == 4
    assert "exited with code" not in log


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_a_rank_that_does_not_end_is_killed_after_its_time(tmp_path: Path, launcher: str) -> None:
    code, _, log, _ = at_its_limit(tmp_path, job(tmp_path, "forever", launcher=launcher, **LIMIT))
    assert code == 143, log
    pids = {path.name: path.read_text() for path in tmp_path.glob("pid*")}
    assert len(pids) == len(list(tmp_path.glob("asked*"))) == 4
    wait_for(lambda: not any(map(alive, pids.values())))


def test_all_ranks_save_when_the_job_hangs(tmp_path: Path) -> None:
    given = job(tmp_path, launcher="srun", hang_timeout=f"{round(stretched(4))}s")
    change(tmp_path, "hang.py", "TOGETHER_S + 10.0", "2.0")
    code, result, log, _ = finished(subprocess.run(**given, timeout=120, check=False).returncode, tmp_path / "job")
    assert code == 124 and result["reason"].startswith("no rank has printed a line for "), log
    assert len(list(tmp_path.glob("saved*"))) == 4, log
