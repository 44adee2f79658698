"""Two jobs on the same nodes at once, twenty times, to find rare errors."""

from __future__ import annotations

from bed import Bed
from test_jobs_together import folders, run_in_pairs

SUBJECTS = [
    "gpucluster/launchers/*run.py",
    "gpucluster_job/job.py",
    "gpucluster_job/network.py",
    "gpucluster_job/torchrun.py",
]
COVERED_BY = "200 jobs in test_generated_jobs.py, five pairs in test_jobs_together.py"
PAIRS = [("srun", "srun"), ("torchrun", "torchrun"), ("horovodrun", "horovodrun"), ("torchrun", "horovodrun")]

__all__ = ["folders"]  # a fixture


def test_two_jobs_at_once_on_the_same_nodes_twenty_times_over(cluster: Bed, folders: dict[str, str]) -> None:
    for _ in range(5):
        run_in_pairs(cluster, folders, PAIRS)
