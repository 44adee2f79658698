"""The ids of the stack's constructs: siblings need different ids, or the synthesis fails."""

from __future__ import annotations

JOB_ROLE = "Jobs"
"""The construct that `s3_access` or `software.cache` adds beside the file systems."""

MAIN = ("Default", "Resource")
"""CDK's two ids for a main child. A construct with both fails."""


def pascal(name: str) -> str:
    """`gpu-large` as `GpuLarge`, `p4d.24xlarge` as `P4d24xlarge`."""
    return "".join(part[:1].upper() + part[1:] for part in name.replace(".", "-").split("-"))


def of_mount(mount: str) -> str:
    """`/fsx` as `Fsx`, `/data/fsx` as `DataFsx`."""
    return pascal(mount.strip("/").replace("/", "-")) or "Root"


def of_repository(path: str) -> str:
    """`/imagenet/21k` as `RepositoryImagenet21k`, within its file system."""
    return of_mount("repository" + path)
