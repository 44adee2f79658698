"""EFS: AWS's NFS file system, which may hold /home."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from gpucluster.config.document import Finding, Path
from gpucluster.config.storage.mount import ON_DELETE, TYPE, Mount, OnDelete
from gpucluster.config.validators import Findings, Validators

validator = Validators("Mounts")


class Efs(Mount):
    type: Annotated[Literal["efs"], TYPE]
    on_delete: OnDelete = "retain"

    at_boot: ClassVar[bool] = True
    updates = {"on_delete": ON_DELETE}

    @property
    def clients(self) -> tuple[str, ...]:
        return ("efs",)

    def summary(self) -> str:
        return f"{self.mount}: EFS"


@validator("home-outlives-cluster", "AWS::EFS::FileSystem: DeletionPolicy Delete", level="warning")
def home_outlives_cluster(storage: Efs, path: Path, config: object) -> Findings:
    """/home on EFS stays when the cluster is deleted."""
    if storage.mount == "/home" and storage.on_delete == "delete":
        yield Finding(
            (*path, "on_delete"), "all home directories are deleted with the cluster", "on_delete: retain keeps them"
        )
