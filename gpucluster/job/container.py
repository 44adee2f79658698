"""Containers that ranks run in: pyxis's name for an image, and which jobs still need the cluster's environment."""

from __future__ import annotations

from gpucluster.job.spec import JobSpec
from gpucluster.launchers import LAUNCHERS


def programs(spec: JobSpec) -> tuple[str, ...]:
    """As a launcher's `programs`."""
    return ("in-container.sh",) if spec.container_image else ()


def image_of(name: str) -> str:
    """The image's name in enroot's form: `nvcr.io/nvidia/pytorch:25.01-py3` becomes `nvcr.io#nvidia/pytorch:25.01-py3`.

    Without the #, enroot looks for the name on Docker Hub. The path of a squashfs file stays unchanged.
    """
    scheme, separator, rest = name.partition("://")
    name = rest if separator else scheme
    registry, slash, repository = name.partition("/")
    if not registry or registry == "." or "#" in name or not slash or not ("." in registry or ":" in registry):
        return name
    return f"{registry}#{repository}"


def replaces_environment(spec: JobSpec) -> bool:
    """Whether no part of the job runs in the cluster's environment. horovodrun itself does: it starts Slurm's steps."""
    return spec.container_image is not None and not LAUNCHERS[spec.launcher].outside_container
