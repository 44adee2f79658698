"""The kinds of storage, each with a room: its section of cluster.yaml, its checks, what changes of its keys do, what
nodes are told, what `plan` and `down` say. The same word names its construct in stacks/storage and its steps.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from gpucluster.config.section import or_blank
from gpucluster.config.storage.beegfs import BeegfsRam as BeegfsRam
from gpucluster.config.storage.efs import Efs as Efs
from gpucluster.config.storage.fsx import DataRepository as DataRepository
from gpucluster.config.storage.fsx import FsxLustre as FsxLustre
from gpucluster.config.storage.home import HOME_ON_HEAD as HOME_ON_HEAD
from gpucluster.config.storage.home import HeadNfs as HeadNfs
from gpucluster.config.storage.mount import Mount as Mount

KINDS: tuple[type[Mount], ...] = (FsxLustre, BeegfsRam, HeadNfs, Efs)


def _type(entry: Any) -> Any:
    return entry.get("type") if isinstance(entry, dict) else getattr(entry, "type", None)


Storage = Annotated[
    Annotated[FsxLustre, Tag("fsx-lustre")]
    | Annotated[BeegfsRam, Tag("beegfs-ram")]
    | Annotated[HeadNfs, Tag("head-nfs")]
    | Annotated[Efs, Tag("efs")],
    Discriminator(_type),
    or_blank(Efs),
]
