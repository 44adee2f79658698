"""How images are named to pyxis, and what a job in a container still needs of its cluster."""

from __future__ import annotations

import pytest

from gpucluster.config import loads
from gpucluster.errors import JobSpecError
from gpucluster.job import SbatchRequest, load
from gpucluster.job.container import image_of
from gpucluster.layout import expand

LAYOUT = expand(
    loads(
        "name: Test\nregion: us-east-1\nsoftware: {frameworks: [torch], containers: true}\n"
        "partitions: [{name: train, instance_types: [p4d.24xlarge], max_nodes: 4}]\n"
    )
)


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io#nvidia/pytorch:25.01-py3"),
        ("docker://nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io#nvidia/pytorch:25.01-py3"),
        ("nvcr.io#nvidia/pytorch:25.01-py3", "nvcr.io#nvidia/pytorch:25.01-py3"),
        ("localhost:5000/mine:1", "localhost:5000#mine:1"),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/mine", "123456789012.dkr.ecr.us-east-1.amazonaws.com#mine"),
        ("ubuntu:24.04", "ubuntu:24.04"),
        ("pytorch/pytorch:latest", "pytorch/pytorch:latest"),
        ("/fsx/images/train.sqsh", "/fsx/images/train.sqsh"),
        ("./train.sqsh", "./train.sqsh"),
    ],
)
def test_image_of(written: str, named: str) -> None:
    assert image_of(written) == named


def job(**flags: object) -> SbatchRequest:
    return SbatchRequest.from_spec(load(LAYOUT, flags={"command": ("a",)} | flags), LAYOUT, "/home/ubuntu/jobs/a")


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "mpirun"])
def test_a_container_replaces_the_environment(launcher: str) -> None:
    request = job(launcher=launcher, framework="torch", container_image="a")
    assert (request.environment, request.environments) == ("", ())
    assert "/envs/" not in request.materialize()


def test_horovodrun_itself_runs_in_the_clusters_environment() -> None:
    with pytest.raises(JobSpecError, match="horovodrun needs horovod"):
        job(launcher="horovodrun", container_image="a")


def test_mounts_without_an_image_are_refused() -> None:
    with pytest.raises(JobSpecError, match="mounts.*needs a container_image"):
        job(container_mounts=("/fsx:/fsx",))
