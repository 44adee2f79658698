"""EFS: AWS's NFS file system, which may hold /home."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from gpucluster.config.storage.mount import ON_DELETE, TYPE, Mount, OnDelete


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
