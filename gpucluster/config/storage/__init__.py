"""The kinds of storage, each with a room: its section of cluster.yaml, its checks, what changes of its keys do, what
nodes are told, what `plan` and `down` say. The same word names its construct in stacks/storage and its steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

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
TYPES = {kind: get_args(kind.model_fields["type"].annotation)[0] for kind in KINDS}
"""As cluster.yaml names them."""


def _type(entry: Any) -> Any:
    return entry.get("type") if isinstance(entry, dict) else getattr(entry, "type", None)


if TYPE_CHECKING:
    Storage = Mount
else:
    Storage = Annotated[
        Union[tuple(Annotated[kind, Tag(name)] for kind, name in TYPES.items())],  # noqa: UP007 of as many as there are
        Discriminator(_type),
        or_blank(Mount),
    ]
