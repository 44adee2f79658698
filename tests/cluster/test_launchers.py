"""Launchers on the session's cluster: gradients of all ranks are averaged. They learn in tests/nightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bed import Bed, Submitted, wait_for

PROGRAMS = Path(__file__).parent / "programs"
STEPS = (1, 2, 3)
OVER_MPI = ("--launcher", "horovodrun", "--controller", "mpi")
LAUNCHERS = [("--launcher", "mpirun"), OVER_MPI, ("--launcher", "horovodrun")]


def reports(job: Submitted) -> dict[int, dict[str, Any]]:
    """Rank -> the last JSON that it printed."""
    lines = (line[1:].split("] ", 1) for line in job.log if "] {" in line and line[1].isdigit())
    return {int(label.split()[0]): json.loads(text) for label, text in lines}


def expected_weights(ranks: int) -> float:
    """The expected weights: from 0, each step of STEPS adds the mean of (rank + 1) * step."""
    return -sum(STEPS) * (ranks + 1) / 2


@pytest.mark.parametrize("launcher", [each for each in LAUNCHERS if each != OVER_MPI], ids=" ".join)
def test_gradients_of_all_ranks_are_averaged(cluster: Bed, launcher: tuple[str, ...]) -> None:
    """Over MPI, horovodrun does it in tests/nightly/jobs/test_learning_over_mpi.py."""
    averages_gradients(cluster, launcher)


def averages_gradients(cluster: Bed, launcher: tuple[str, ...]) -> None:
    job = cluster.submit(
        "--nodes", "2", "--gpus-per-node", "2", *launcher, "--workdir", str(PROGRAMS), "--follow",
        "--", "python", "horovod_gradients.py",
    )  # fmt: skip
    assert job.exit_code == 0, job.told
    over_mpi = launcher != ("--launcher", "horovodrun")
    assert reports(job) == {
        rank: {"weights": [expected_weights(4)] * 5, "size": 4, "mpi": over_mpi} for rank in range(4)
    }
    nodes = {line.split("]")[0] for line in job.log if "] {" in line}
    first, second = job.result["node_list"]
    assert nodes == {f"[0 {first}", f"[1 {first}", f"[2 {second}", f"[3 {second}"}


def test_a_rank_that_fails_ends_a_job_of_horovodrun_over_mpi(cluster: Bed) -> None:
    """Its lines have mpirun's labels and ours. The test of all launchers covers mpirun itself."""
    program = 'if [ "$RANK" = 3 ]; then echo "about to fail"; exit 3; fi; exec sleep 299'
    job = cluster.submit("--nodes", "2", "--gpus-per-node", "2", *OVER_MPI, "--follow", "--", "bash", "-c", program)
    assert job.exit_code == 4, job.told
    first, second = job.result["node_list"]
    assert (job.result["exit_code"], job.result["failed_rank"], job.result["failed_node"]) == (3, 3, second)
    assert job.result["reason"] == "about to fail"
    for node in (first, second):
        left = "ssh", node, "pgrep -af '[s]leep 299|[p]rted' || true"
        wait_for(f"no process left on {node}", lambda left=left: not cluster.ssh(*left).strip(), 30)


UNTIL_SIGNALLED = """
trap 'echo signalled; exit 0' USR1
echo up
for second in $(seq 600); do sleep 1 & wait $!; done
exit 9
"""
SHORTER_MIN = 3
"""The signal, two minutes before, is due once Slurm looks again, which it does every 30 s."""


def test_ranks_get_the_signal_before_the_time_limit(cluster: Bed) -> None:
    """mpirun's ranks on the first node are in no Slurm step. They all run before the limit is shortened."""
    limit = ("--time", "0:30:00", "--signal", "USR1@120")
    ranks = ("--nodes", "2", "--gpus-per-node", "2", "--launcher", "mpirun")
    job = cluster.submit(*ranks, *limit, "--", "bash", "-c", UNTIL_SIGNALLED)
    job_id = job.last["job_id"]

    def printed(word: str) -> list[str]:
        log = cluster.ssh("cat", f"{job.last['folder']}/log.txt")
        return sorted(line.split()[0] for line in log.splitlines() if line.endswith(f"] {word}"))

    wait_for("all ranks", lambda: len(printed("up")) == 4, 120)
    cluster.ssh("sudo", "scontrol", "update", f"jobid={job_id}", f"timelimit={SHORTER_MIN}")
    done = cluster.gpucluster("logs", "-f", job_id, timeout_s=400)
    assert done.returncode == 0, done.stderr + done.stdout
    assert printed("signalled") == ["[0", "[1", "[2", "[3"]


def test_srun_leaves_the_choice_of_cpus_to_the_ranks(cluster: Bed) -> None:
    """No GPU here has a NUMA node, so they keep all CPUs of the job."""
    show = "echo cpus $SLURM_CPU_BIND_TYPE $((CPUS_PER_RANK - SLURM_CPUS_PER_TASK)) $OMP_NUM_THREADS"
    job = cluster.submit(
        "--nodes", "1", "--gpus-per-node", "2", "--launcher", "srun", "--follow", "--", "bash", "-c", show
    )
    assert job.exit_code == 0, job.told
    said = [line.partition("] ")[2] for line in job.log]
    assert [line for line in said if line.startswith("cpus ")] == ["cpus none 0 1"] * 2
