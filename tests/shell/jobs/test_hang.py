"""A job that hangs: real ranks print where they stand, and the job ends with the reason."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from stubbed_jobs import alive, change, finished, prepare, wait_for

from localcloud.testing.patience import stretched

PROGRAM = """
import os, sys, threading, time
def forward():
    time.sleep(600)
def all_reduce():
    threading.Event().wait()
threading.Thread(target=time.sleep, args=[600], daemon=True).start()
print("step", os.environ["RANK"], flush=True)
open(f"{os.environ['OUT']}/pid{os.environ['RANK']}", "w").write(str(os.getpid()))
if os.environ["RANK"] == "3":
    time.sleep(1)
    print("step 40", flush=True)
    forward()
all_reduce()
"""


def started(tmp_path: Path, program: str, **keys):
    job = prepare(tmp_path, {}, {"hang_timeout": "4s", "command": ("python", "train.py")} | keys)
    (tmp_path / "job" / "code" / "train.py").write_text(program)
    return subprocess.Popen(**job)


@pytest.mark.parametrize(
    ("launcher", "command"),
    [
        ("torchrun", ("python", "train.py")),
        ("horovodrun", ("python", "train.py")),
        ("mpirun", ("python", "train.py")),
        ("srun", ("bash", "-c", "python train.py; true")),
    ],
)
def test_a_job_that_hangs_ends_and_says_where_each_rank_stands(tmp_path, launcher, command):
    limit_s = min(59, round(stretched(4)))  # on a busy machine, ranks need longer to start
    process = started(tmp_path, PROGRAM, launcher=launcher, command=command, hang_timeout=f"{limit_s}s")
    code, result, log, _ = finished(process.wait(240), tmp_path / "job")
    assert (code, result["exit_code"], result["failed_rank"]) == (124, 124, None), log
    said, last, *places = result["reason"].split("; ")
    assert said == f"no rank has printed a line for {limit_s} s (hang_timeout)"
    assert re.fullmatch(r"rank 3 on train-2 was the last, at [0-9:]{8} UTC: step 40", last)
    assert set(places) == {
        "ranks 0, 1, 2 in wait, called from all_reduce (train.py:6)",
        "rank 3 in forward (train.py:4)",
    }
    assert log.splitlines()[-1] == f"error: {result['reason']}"
    assert not [pid for rank in range(4) if alive(pid := (tmp_path / f"pid{rank}").read_text())]


@pytest.mark.parametrize("place", ["line", "dots", "code", "state"])
def test_a_job_that_prints_or_writes_files_does_not_hang(tmp_path, place):
    """It is silent for less than the limit at a time, and runs for longer."""
    work = {
        "line": "print('step', flush=True)",
        "dots": "print('.', end='', flush=True)",  # as Keras's and unittest's progress
        "code": "open('checkpoint.pt', 'w').close()",
        "state": "open(os.environ['GPUCLUSTER_STATE'] + '/model.pt', 'w').close()",
    }[place]
    limit_s = min(59, round(stretched(4)))
    program = f"import os, time\nfor _ in range({3 * limit_s}):\n    {work}\n    time.sleep(0.7)\n"
    process = started(tmp_path, program, launcher="srun", hang_timeout=f"{limit_s}s")
    code, result, log, _ = finished(process.wait(120), tmp_path / "job")
    assert (code, result["reason"]) == (0, None), log


def test_a_program_that_is_not_python_is_ended_too(tmp_path):
    """It has printed nothing, and ignores SIGABRT as long as it can."""
    program = "trap '' ABRT TERM; touch \"$OUT/up$RANK\"; while :; do sleep 1; done"
    job = prepare(tmp_path, {}, {"hang_timeout": "3s", "command": ("bash", "-c", program), "launcher": "torchrun"})
    change(tmp_path, "hang.py", "TOGETHER_S + 10.0", "2.0")
    process = subprocess.Popen(**job)
    wait_for(lambda: len(list(tmp_path.glob("up*"))) == 4)
    code, result, log, _ = finished(process.wait(120), tmp_path / "job")
    assert code == 124, log
    assert result["reason"] == "no rank has printed a line for 3 s (hang_timeout); none has printed anything"


def test_a_cancelled_job_did_not_hang(tmp_path):
    process = started(tmp_path, PROGRAM, launcher="srun", hang_timeout="10:00")
    wait_for(lambda: (tmp_path / "pid3").exists())
    process.terminate()
    code, result, _, _ = finished(process.wait(60), tmp_path / "job")
    assert (code, result["reason"]) == (143, "cancelled")


WAITS_IN_VAIN = """
import os, sys, time
sys.path.insert(0, "site-packages")
from torch.distributed.distributed_c10d import all_reduce
print("step", os.environ["RANK"], flush=True)
open(f"{os.environ['OUT']}/pid{os.environ['RANK']}", "w").write(str(os.getpid()))
def load():
    time.sleep(600)
load() if os.environ["RANK"] == "3" else all_reduce()
"""
TIMES_OUT = """
import time
def all_reduce():
    time.sleep(5)
    raise RuntimeError("[gloo/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete")
"""


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_a_timeout_is_the_fault_of_the_rank_that_did_not_come(tmp_path, launcher):
    """tests/cluster/seeing has the same with torch itself."""
    job = prepare(tmp_path, {}, {"launcher": launcher, "command": ("python", "train.py")})
    library = tmp_path / "job/code/site-packages/torch/distributed"
    library.mkdir(parents=True)
    (library / "distributed_c10d.py").write_text(TIMES_OUT)
    (tmp_path / "job/code/train.py").write_text(WAITS_IN_VAIN)
    process = subprocess.Popen(**job)
    code, result, log, _ = finished(process.wait(240), tmp_path / "job")
    assert (code, result["failed_rank"], result["missing_ranks"]) == (1, None, [3]), log
    blame, stood, report = result["reason"].split("; ")
    assert blame == "rank 3 did not come to the collective, in which ranks 0, 1, 2 waited"
    assert stood == "rank 3 in load (train.py:8)"
    assert re.fullmatch(r"rank [012] on train-[12] says: RuntimeError: .* Timed out waiting 5000ms for recv .*", report)
    assert not alive((tmp_path / "pid3").read_text())
