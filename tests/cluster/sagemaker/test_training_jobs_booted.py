"""A chain of tasks on the local cloud's SageMaker, as users type it: prepare, train on three hosts, resume, skip. The
same files on the Slurm cluster beside it give the same weights."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from bed import Bed
from beds import up_without_environments

from tests.cluster.sagemaker import trainer

CHAIN = Path(__file__).parent / "chain"
SECTION = "\nsagemaker:" + indent(trainer.SECTION, "  ")
"""Hosts have the nodes' Python and Open MPI 5."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A cluster with the section `sagemaker`."""
    with up_without_environments(tmp_path_factory.mktemp("both"), SECTION) as bed:
        trainer.make(bed)
        yield bed


@pytest.fixture(scope="module")
def on_slurm(both: Bed) -> dict[str, Any]:
    """The last line of `submit`: it runs beside the tests."""
    both.submit(str(CHAIN / "prepare.yaml"))
    return both.submit(str(CHAIN / "train.yaml")).last


def trained(bed: Bed, job: str, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """A job on SageMaker that is followed to its end, and the last line of `submit`."""
    done = bed.gpucluster("submit", str(CHAIN / job), "--on", "sagemaker", "--follow", *words, timeout_s=240)
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def first(both: Bed, on_slurm: dict[str, Any]) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    prepared, line = trained(both, "prepare.yaml")
    assert (prepared.returncode, line["state"]) == (0, "COMPLETED"), prepared.stdout
    return trained(both, "train.yaml")


def weights(bed: Bed, job: str, folder: Path) -> bytes:
    fetched = bed.gpucluster("fetch", job, "state", "--to", str(folder))
    assert fetched.returncode == 0, fetched.stderr
    return (folder / "weights.json").read_bytes()


def test_three_hosts_train_and_the_same_files_give_the_same_weights_on_slurm(
    both: Bed,
    on_slurm: dict[str, Any],
    first: tuple[subprocess.CompletedProcess[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    done, line = first
    assert (done.returncode, line["state"]) == (0, "COMPLETED"), done.stdout
    for rank in range(3):
        assert f"[{rank} algo-{rank + 1}] begins at epoch 0 with 10 points" in done.stdout
    followed = both.gpucluster("logs", "--follow", on_slurm["job_id"], timeout_s=240)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    here, there = (weights(both, job, tmp_path / job) for job in (line["job_id"], on_slurm["job_id"]))
    assert here == there
    assert f"[0 algo-1] weights {hashlib.sha256(there).hexdigest()}" in done.stdout


def test_more_epochs_continue_and_the_same_again_is_skipped(both: Bed, first: object, tmp_path: Path) -> None:
    more = ("--", "python3", "train.py", "6")
    resumed, line = trained(both, "train.yaml", *more)
    assert resumed.returncode == 0, resumed.stdout
    assert [f"[{rank} algo-{rank + 1}] begins at epoch 4 with 10 points" in resumed.stdout for rank in range(3)] == [
        True
    ] * 3, resumed.stdout
    again, skipped = trained(both, "train.yaml", *more)
    assert (again.returncode, skipped["job_id"], skipped["skipped"]) == (0, line["job_id"], True)
    assert json.loads(weights(both, line["job_id"], tmp_path / "state"))[0] == 6
    log = both.gpucluster("logs", line["job_id"])
    assert "[0 algo-1] begins at epoch 4" in log.stdout, log.stderr


def test_the_rank_that_failed_is_named_and_jobs_lists_both_targets(
    both: Bed, on_slurm: dict[str, Any], first: tuple[object, dict[str, Any]]
) -> None:
    """Ranks on the other hosts lose their connection to it."""
    done, failed = trained(both, "train.yaml", "--name", "fails", "--", "python3", "train.py", "4", "0")
    reason = "rank 0 on algo-1 exited with code 1: KeyError: 'no such label: 11'"
    assert (done.returncode, failed["state"]) == (4, "FAILED"), done.stdout
    assert failed["reason"] == f"AlgorithmError: {reason}", done.stdout
    why = both.gpucluster("why", failed["job_id"]).stdout
    assert reason in why, why
    rows = {row["job_id"]: row for row in json.loads(both.gpucluster("jobs", "--json").stdout)}
    seen = {job: (rows[job]["target"], rows[job]["state"]) for job in (failed["job_id"], first[1]["job_id"])}
    assert seen == {
        failed["job_id"]: ("sagemaker", "FAILED"),
        first[1]["job_id"]: ("sagemaker", "COMPLETED"),
    }
    assert rows[on_slurm["job_id"]]["target"] == "cluster"


def test_bench_compares_both_targets_in_one_table_and_plot(both: Bed, tmp_path: Path) -> None:
    plot = tmp_path / "both.svg"
    program = "import os; print('speed', 100 * int(os.environ['WORLD_SIZE']))"
    words = ("--targets", "slurm,sagemaker", "--launchers", "mpirun", "-N", "1,2", "--repeats", "1")
    speed = ("--metrics", "throughput=speed ([0-9]+)", "--plot", str(plot))
    done = both.gpucluster("bench", *words, *speed, "--", "python3", "-c", program, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])["settings"]
    assert {(row["target"], row["nodes"]) for row in rows} == {
        (target, nodes) for target in ("slurm", "sagemaker") for nodes in (1, 2)
    }
    assert {"slurm mpirun", "sagemaker mpirun"} <= set(re.findall("<!-- (.+?) -->", plot.read_text()))
