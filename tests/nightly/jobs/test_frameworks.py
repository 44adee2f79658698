"""Launchers in environments that the cluster tier does not test: TensorFlow's and SMDDP's."""

from __future__ import annotations

import pytest
from bed import Bed
from killed_ranks import lose_rank_1
from test_launchers import LAUNCHERS, PROGRAMS, expected_weights, reports

SUBJECTS = [
    "tests/cluster/programs/horovod_gradients_tensorflow.py",
    "tests/cluster/programs/smddp_gradients.py",
    "bootstrap/stand_in_wheels.py",
    "gpucluster/launchers/*",
    "gpucluster*job/*",
    "gpucluster/job_keys.py",
    "templates/job/*",
    "bootstrap/environments/*.txt",
]
COVERED_BY = (
    "mpirun and horovodrun with torch in test_launchers.py, killed ranks in test_jobs_together.py; the scripts of "
    "smddp and TensorFlow in tests/shell"
)
ON_TWO_NODES = ("--nodes", "2", "--gpus-per-node", "2", "--workdir", str(PROGRAMS), "--follow")


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=" ".join)
def test_horovod_averages_gradients_of_tensorflow(servers: Bed, launcher: tuple[str, ...]) -> None:
    program = ("--framework", "tensorflow", "--", "python", "horovod_gradients_tensorflow.py")
    job = servers.submit(*launcher, *ON_TWO_NODES, *program, timeout_s=420)
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    over_mpi = launcher != ("--launcher", "horovodrun")
    expected = {"weights": [expected_weights(4)] * 5, "size": 4, "mpi": over_mpi}
    assert reports(job) == dict.fromkeys(range(4), expected)


def test_smddp_averages_gradients(servers: Bed) -> None:
    """With the library's stand-in, which shows that environment, launcher and import work."""
    words = ("--launcher", "smddp", "--partition", "big")
    job = servers.submit(*words, *ON_TWO_NODES, "--", "python", "smddp_gradients.py", timeout_s=420)
    assert job.exit_code == 0, job.told + "\n".join(job.log)
    expected = {"weights": [expected_weights(4)] * 5, "size": 4, "backend": "smddp"}
    assert reports(job) == dict.fromkeys(range(4), expected)


def test_a_killed_rank_of_smddp_ends_the_job_and_is_named(servers: Bed) -> None:
    words = ("--launcher", "smddp", "--partition", "big")
    lose_rank_1(servers, 4, *words, "--nodes", "2", "--gpus-per-node", "2")
