"""Which folders and GPUs `context add` accepts from a cluster."""

from __future__ import annotations

import pytest

from gpucluster.contexts import add, probe
from gpucluster.errors import UsageError


@pytest.mark.parametrize(
    "folder", ["/home/me/gpucluster", "/scratch/me+you/jobs-2.0_x", "/home/me@example.org/gpucluster"]
)
def test_a_folder_that_every_job_can_name(folder: str) -> None:
    assert add.checked(folder, "--folder") == folder


@pytest.mark.parametrize(
    ("folder", "odd"),
    [
        ("/home/alice/gpucluster dir/ümlaut", "' ', 'ü'"),
        ("/home/me/it's", '"\'"'),
        ('/home/me/"x"', "'\"'"),
        ("/home/me/100%", "'%'"),
        ("/home/me/a#b", "'#'"),
        ("/home/me/a,b:c", "',', ':'"),
        ("/home/me/a\\b", r"'\\'"),
        ("/home/me/a\nb", r"'\n'"),
        ("/home/$USER", "'$'"),
    ],
)
def test_a_folder_that_some_part_of_a_job_would_misread(folder: str, odd: str) -> None:
    """For example `#SBATCH --chdir` at a blank, and `#SBATCH --output` at a %."""
    with pytest.raises(UsageError) as raised:
        add.checked(folder, "the jobs' folder")
    assert f"has {odd}, and allowed are letters from A to Z, digits" in raised.value.message
    assert raised.value.hint == "name another one with --folder, such as /scratch/me/jobs"


def test_a_relative_folder() -> None:
    with pytest.raises(UsageError, match="--folder jobs: must be an absolute path on the cluster"):
        add.checked("jobs", "--folder")


@pytest.mark.parametrize(
    ("gres", "gpus", "model"),
    [
        ("gpu:ampere:6,gpu:1g.10gb:28", 6, "ampere"),
        ("gpu:a100:2(S:0),gpu:a100_3g.20gb:4(S:1),nvme:1", 2, "a100"),
        ("gpu:1g.10gb:28", 28, "1g.10gb"),
        ("gpu:nvidia_a100_1g.5gb:7,gpu:nvidia_a100_3g.20gb:2", 9, ""),
        ("gpu:h100:8(S:0-1)", 8, "h100"),
    ],
)
def test_slices_of_gpus_count_only_alone(gres: str, gpus: int, model: str) -> None:
    """GRES as in jupyterhub_moss issue 104."""
    (kind,) = probe.partitions([f"gpu|1|64|500000|{gres}"])[0].kinds
    assert (kind.gpus, kind.gpu_model) == (gpus, model)
