"""The job's reason for recorded failures of real programs."""

from __future__ import annotations

import re
import signal
import subprocess

import pytest
from stubbed_jobs import finished, prepare, wait_for

from gpucluster_job.ranks.last_words import last_words
from localcloud.testing.recorded import record, recorded


def test_a_rank_whose_watchdog_ends_it_says_which_operation_timed_out(run_job):
    """torch's stack frames come after the sentence."""
    program = f'[ "$RANK" != 1 ] || {{ {recorded("torchrun/nccl-watchdog-abort.txt")}; kill -ABRT $$; }}; sleep 9'
    _, result, _, _ = run_job(launcher="torchrun", command=("bash", "-c", program))
    assert result["failed_rank"] == 1
    assert result["reason"] == (
        "killed by SIGABRT, last line: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=78, "
        "OpType=SCATTER, NumelIn=29360128, NumelOut=0, Timeout(ms)=1800000) ran for 1800043 milliseconds before "
        "timing out."
    )


BY_TORCH_VERSION = record("torchrun/nccl-watchdog-timeout.txt").split("\n\n")


@pytest.mark.parametrize("text", BY_TORCH_VERSION, ids=["2.10", "2.5", "2.2"])
def test_the_watchdogs_sentence_is_found_in_each_of_torchs_wordings(text):
    said = last_words(text.splitlines())
    assert re.fullmatch(
        r"Watchdog caught collective operation timeout: WorkNCCL\(.*\) ran for \d+ milliseconds .*", said
    )


MPIRUN_1, MPIRUN_4, MPIRUN_KILLED = record("mpirun/nonzero-exit.txt").split("\n\n-", 2)
ENDINGS = {
    "mpirun of Open MPI 3": ("mpirun", MPIRUN_1, "process [[1888,1],0] exited with code 1"),
    "mpirun of Open MPI 4": ("mpirun", f"-{MPIRUN_4}", "process [[34210,1],0] exited with code 2"),
    "mpirun, of a rank that was killed": (
        "mpirun", f"-{MPIRUN_KILLED}",
        "mpirun noticed that process rank 7 with PID 0 on node DESKTOP-G7NUGFV exited on signal 9 (Killed).",
    ),
    "mpirun of Open MPI 5": (
        "mpirun", record("mpirun/openmpi5-prterun.txt").split("\n\n-")[0],
        "process [prterun-gpu013-1009179@1,0] exited with code 1",
    ),
    "torchrun": (
        "torchrun", record("torchrun/childfailed-sigkill.txt").split("\n\n")[0],
        "rank 0 (local_rank: 0) on mlxlab115rp2n7682d40d9-20250521025625-6dyyd3-8nir8b-worker: "
        "Signal 9 (SIGKILL) received by PID 14750",
    ),
    "srun, of a task that ran out of memory": (
        "srun", record("slurm/srun-and-slurmstepd-errors.txt").split("\n\n")[1],
        "srun: error: holy8a26601: task 0: Out Of Memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDINGS)
def test_a_launchers_own_error_if_no_rank_gives_a_reason(tmp_path, case):
    launcher, text, reason = ENDINGS[case]
    job = prepare(tmp_path, {}, {"launcher": launcher, "command": ("true",)})
    (tmp_path / "said").write_text(text + "\n")
    (tmp_path / "stubs" / launcher).write_text(f"#!/usr/bin/env bash\ncat {tmp_path}/said\nexit 1\n")
    process = subprocess.run(**job, timeout=60, check=False)
    _, result, log, _ = finished(process.returncode, tmp_path / "job")
    assert result["reason"] == f"{launcher} exited with code 1: {reason}", log


STEPD = record("slurm/srun-and-slurmstepd-errors.txt")
NODE_FAILURE = STEPD.split("\n\n")[0]
FORMATS = [line for line in STEPD.splitlines() if line.startswith("*** %s") and "CANCELLED" in line]


def test_a_launcher_that_ends_because_it_lost_a_node_says_so(tmp_path):
    """srun may end before Slurm stops the job's script. Its last words name no node."""
    job = prepare(tmp_path, {}, {"launcher": "horovodrun", "command": ("true",)})
    (tmp_path / "said").write_text("".join(NODE_FAILURE.splitlines(keepends=True)[:2]))
    (tmp_path / "stubs" / "horovodrun").write_text(f"#!/usr/bin/env bash\ncat {tmp_path}/said >&2\nexit 1\n")
    process = subprocess.run(**job, timeout=60, check=False)
    _, result, log, _ = finished(process.returncode, tmp_path / "job")
    assert result["reason"] == "lost the node jean-zay-iam37", log


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (NODE_FAILURE, "lost the node jean-zay-iam37"),
        (NODE_FAILURE.splitlines()[-1], "lost a node"),
        # Slurm 24.11 names the node
        ("slurmstepd-train-1: error: *** JOB 77 ON train-1 CANCELLED AT 2026-11-22T17:50:26 DUE TO TIME LIMIT ***",
         "stopped at its time limit"),
        *zip(
            [f"slurmstepd: error: {line % ('JOB 77', 'train-1', '2026-11-22T12:00:00')}" for line in FORMATS],
            ["stopped at its time limit", "preempted: a job with a higher priority needs its nodes", "lost a node",
             "requeued"],
            strict=True,
        ),
    ],
)  # fmt: skip
def test_slurms_message_is_the_reason_of_a_jobs_end(tmp_path, said, reason):
    (tmp_path / "said").write_text(said + "\n")
    job = prepare(tmp_path, {}, {"launcher": "horovodrun", "command": ("true",)})
    program = f'cat {tmp_path}/said >&2; touch "$OUT/up"; exec sleep 60'
    (tmp_path / "stubs" / "horovodrun").write_text(f"#!/usr/bin/env bash\n{program}\n")
    process = subprocess.Popen(**job)
    wait_for(lambda: (tmp_path / "up").exists())
    process.send_signal(signal.SIGTERM)
    _, result, log, _ = finished(process.wait(30), tmp_path / "job")
    assert result["reason"] == reason, log
