"""Storage: /home on the head node's volume, and the file systems and buckets that cluster.yaml names.

A construct here creates its AWS resources, opens its ports, grants the nodes' roles their permissions, and writes what
nodes must know into a parameter `storage/<mount>`, as JSON with the keys `type` and `mount`. The cluster creates no
bucket: it uses the user's, and the one of `cdk bootstrap`, which itself refuses plain HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from constructs import Construct

from gpucluster.config import construct_ids
from gpucluster.config.storage import Mount
from stacks.context import Context
from stacks.monitoring.metrics import FileSystem
from stacks.storage.beegfs import BeegfsRam
from stacks.storage.efs import Efs
from stacks.storage.fsx import FsxLustre
from stacks.storage.s3_access import JobRole

KINDS: Mapping[str, Callable[..., Construct]] = {"fsx-lustre": FsxLustre, "efs": Efs, "beegfs-ram": BeegfsRam}


class Storage(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        self.file_systems: tuple[FileSystem, ...] = ()
        for storage in context.config.storage:
            self._make(context, storage)
        if context.config.s3_access:
            self.jobs = JobRole(self, construct_ids.JOB_ROLE, context=context, access=context.config.s3_access)

    def _make(self, context: Context, storage: Mount) -> None:
        """`head-nfs` is the head node's volume, which is always created, listed or not."""
        id_ = construct_ids.of_mount(storage.mount)
        if kind := KINDS.get(storage.type):
            made = kind(self, id_, context=context, storage=storage)
            self.file_systems += getattr(made, "watched", ())
