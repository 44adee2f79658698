"""Storage: /home on the head node's volume, and the file systems and buckets that cluster.yaml names.

A construct here creates its AWS resources, opens its ports, grants the nodes' roles their permissions, and writes what
nodes must know into a parameter `storage/<mount>`, as JSON with the keys `type` and `mount`. The cluster creates no
bucket: it uses the user's, and the one of `cdk bootstrap`, which itself refuses plain HTTP.
"""

from __future__ import annotations

from collections.abc import Callable

from constructs import Construct

from gpucluster.config import construct_ids
from gpucluster.config.storage import Existing, Mount
from stacks.context import Context
from stacks.monitoring.metrics import FileSystem
from stacks.storage.s3_access import JobRole


class Storage(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        self.file_systems: tuple[FileSystem, ...] = ()
        for storage in context.config.storage:
            self._make(context, storage)
        if context.config.jobs_have_role:
            self.jobs = JobRole(self, construct_ids.JOB_ROLE, context=context)

    def _make(self, context: Context, storage: Mount) -> None:
        id_ = construct_ids.of_mount(storage.mount)
        if kind := _construct(storage):
            made = kind(self, id_, context=context, storage=storage)
            self.file_systems += getattr(made, "watched", ())


def _construct(storage: Mount) -> Callable[..., Construct] | None:
    """Imports CDK's library for this kind alone. `head-nfs` is the head node's volume, which is always created."""
    if isinstance(storage, Existing):
        from stacks.storage import existing

        return existing.Existing
    match storage.type:
        case "fsx-lustre":
            from stacks.storage.fsx import FsxLustre

            return FsxLustre
        case "ebs":
            from stacks.storage.ebs import Ebs

            return Ebs
        case "efs":
            from stacks.storage.efs import Efs

            return Efs
        case "beegfs-ram":
            from stacks.storage.beegfs import BeegfsRam

            return BeegfsRam
    return None
