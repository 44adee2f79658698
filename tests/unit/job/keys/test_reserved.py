"""Variables that a job may set although launchers set others with the same beginning."""

from __future__ import annotations

import pytest

from gpucluster.job.reserved import refusal


@pytest.mark.parametrize("name", ["PMIX_MCA_gds", "PMIX_MCA_psec", "OMPI_MCA_btl", "HOROVOD_TIMELINE"])
def test_parameters_of_launchers_are_the_jobs(name: str) -> None:
    """gpucluster_job/mpi.py keeps a job's PMIX_MCA_gds."""
    assert refusal(name) is None


@pytest.mark.parametrize("name", ["PMIX_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK"])
def test_what_a_launcher_sets_for_each_rank_is_refused(name: str) -> None:
    assert refusal(name) == ("the launcher sets it for each rank", "choose another name")
