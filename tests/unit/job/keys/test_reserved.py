"""Variables that a job may set although launchers set others with the same beginning."""

from __future__ import annotations

import pytest

from gpucluster.job.reserved import refusal


@pytest.mark.parametrize("name", ["PMIX_MCA_gds", "PMIX_MCA_psec", "OMPI_MCA_btl", "HOROVOD_TIMELINE"])
def test_parameters_of_launchers_are_the_jobs(name: str) -> None:
    """gpucluster_job/mpi.py keeps a job's PMIX_MCA_gds."""
    assert refusal(name) is None


@pytest.mark.parametrize("name", ["SLURM_MPI_TYPE", "SLURM_CPU_BIND"])
def test_how_srun_starts_ranks_is_the_jobs_choice(name: str) -> None:
    """srun(1), INPUT ENVIRONMENT VARIABLES: as --mpi and --cpu-bind, for which a job has no key. Many clusters have no
    MpiDefault, so that programs of MPI need the first (charliecloud's FAQ: SLURM_MPI_TYPE=pmi2)."""
    assert refusal(name) is None


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_MPI_TYPES", "SLURM_EXPORT_ENV", "SRUN_DEBUG"])
def test_other_settings_of_srun_are_refused(name: str) -> None:
    assert refusal(name) is not None


@pytest.mark.parametrize("name", ["PMIX_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK"])
def test_what_a_launcher_sets_for_each_rank_is_refused(name: str) -> None:
    assert refusal(name) == ("the launcher sets it for each rank", "choose another name")
