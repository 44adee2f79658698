"""What the stack's constructs are called after: those beside each other need ids of their own, or synthesis fails."""

from __future__ import annotations

JOB_ROLE = "Jobs"
"""Beside the file systems, with `s3_access`."""

MAIN = ("Default", "Resource")
"""What CDK calls the main one of those in one place, either of them; of both at once it makes an error."""


def pascal(name: str) -> str:
    """`gpu-large` as `GpuLarge`, `p4d.24xlarge` as `P4d24xlarge`."""
    return "".join(part[:1].upper() + part[1:] for part in name.replace(".", "-").split("-"))


def of_mount(mount: str) -> str:
    """`/fsx` as `Fsx`, `/data/fsx` as `DataFsx`."""
    return pascal(mount.strip("/").replace("/", "-")) or "Root"


def of_repository(path: str) -> str:
    """Within its file system: `/imagenet/21k` as `RepositoryImagenet21k`."""
    return of_mount("repository" + path)
