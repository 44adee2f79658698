"""Containers that ranks run in: how an image is named to pyxis, and who still needs the cluster's own environment."""

from __future__ import annotations

from gpucluster.job.spec import JobSpec
from gpucluster.launchers import LAUNCHERS


def programs(spec: JobSpec) -> tuple[str, ...]:
    """As a launcher's `programs`."""
    return ("in-container.sh",) if spec.container_image else ()


def image_of(name: str) -> str:
    """As enroot takes it: `nvcr.io/nvidia/pytorch:25.01-py3` is `nvcr.io#nvidia/pytorch:25.01-py3` there.

    Without the mark, enroot looks for that name at Docker Hub. A path, to a squashfs file, stays as it is.
    """
    scheme, separator, rest = name.partition("://")
    name = rest if separator else scheme
    registry, slash, repository = name.partition("/")
    if not registry or registry == "." or "#" in name or not slash or not ("." in registry or ":" in registry):
        return name
    return f"{registry}#{repository}"


def replaces_environment(spec: JobSpec) -> bool:
    """Whether nothing of the job runs in the cluster's environment. horovodrun itself does: it starts Slurm's steps."""
    return spec.container_image is not None and not LAUNCHERS[spec.launcher].outside_container
