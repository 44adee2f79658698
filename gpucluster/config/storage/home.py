"""/home on the head node's data volume, which it exports."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from gpucluster.config.document import Finding, Path
from gpucluster.config.storage.mount import TYPE, Mount
from gpucluster.config.validators import Findings, Validators

validator = Validators("Mounts")


class HeadNfs(Mount):
    type: Annotated[Literal["head-nfs"], TYPE]

    on_volume: ClassVar[bool] = True


HOME_ON_HEAD = HeadNfs.model_construct(mount="/home", type="head-nfs")


@validator("head-nfs-shares-home", "man exports.5: the head node exports one directory")
def head_nfs_shares_home(storage: HeadNfs, path: Path, config: object) -> Findings:
    """head-nfs is mounted at /home: it is the head node's volume, which holds nothing else."""
    if storage.mount != "/home":
        yield Finding(
            (*path, "mount"),
            f"head-nfs shares /home only, got {storage.mount}",
            "use a directory under /home: every node mounts it",
        )
