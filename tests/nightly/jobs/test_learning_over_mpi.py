"""Training over MPI. tests/cluster/test_launchers.py tests three steps with mpirun at every push."""

from __future__ import annotations

import pytest
from bed import Bed
from test_launchers import LAUNCHERS, OVER_MPI, averages_gradients, reports
from test_training import epochs

SUBJECTS = [
    "examples/digits/*",
    "gpucluster/launchers/*",
    "gpucluster*job/*",
    "gpucluster/job_keys.py",
    "templates/job/*",
    "bootstrap/environments/*.txt",
    "tests/cluster/programs/horovod_gradients.py",
]
COVERED_BY = (
    "test_launchers.py: exact gradients with mpirun and horovodrun, and a failed rank with horovodrun over MPI; "
    "digits are learned in test_training.py"
)


@pytest.mark.parametrize("launcher", LAUNCHERS[:2], ids=" ".join)
def test_digits_are_learned_over_mpi(cluster: Bed, launcher: tuple[str, ...]) -> None:
    job = cluster.submit("examples/digits/job-horovod.yaml", *launcher, "--follow", *epochs("train_horovod.py"))
    assert job.exit_code == 0, job.told
    assert job.result["world_size"] == 4
    (accuracy,) = [report["accuracy"] for report in reports(job).values() if "accuracy" in report]
    assert accuracy >= 0.95


def test_gradients_of_all_ranks_are_averaged_over_mpi(cluster: Bed) -> None:
    averages_gradients(cluster, OVER_MPI)
