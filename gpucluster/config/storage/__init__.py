"""The kinds of storage, each in its own module: its section of cluster.yaml, its checks, the effects of changes, the
nodes' data, the lines of `plan` and `down`. Its construct in stacks/storage and its steps have the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

from pydantic_core import PydanticKnownError

from gpucluster.config.section import Separate, or_blank
from gpucluster.config.storage.beegfs import BeegfsRam as BeegfsRam
from gpucluster.config.storage.efs import Efs as Efs
from gpucluster.config.storage.fsx import DataRepository as DataRepository
from gpucluster.config.storage.fsx import FsxLustre as FsxLustre
from gpucluster.config.storage.home import HOME_ON_HEAD as HOME_ON_HEAD
from gpucluster.config.storage.home import HeadNfs as HeadNfs
from gpucluster.config.storage.mount import Mount as Mount

KINDS: tuple[type[Mount], ...] = (FsxLustre, BeegfsRam, HeadNfs, Efs)
TYPES = {kind: get_args(kind.model_fields["type"].annotation)[0] for kind in KINDS}
"""The kinds by their names in cluster.yaml."""


def _read(entry: Any) -> Mount:
    """Reads an entry as the kind that its `type` names. Validators are built only for kinds that a file has."""
    name = entry.get("type") if isinstance(entry, dict) else getattr(entry, "type", None)
    kind = next((kind for kind, each in TYPES.items() if each == name), None)
    if kind:
        return kind.model_validate(entry)
    if name is None:
        raise PydanticKnownError("union_tag_not_found", {"discriminator": "type"})
    expected = ", ".join(map(repr, TYPES.values()))
    raise PydanticKnownError(
        "union_tag_invalid", {"discriminator": "type", "tag": ascii(name), "expected_tags": expected}
    )


if TYPE_CHECKING:
    Storage = Mount
else:
    Storage = Annotated[Union[KINDS], Separate(_read), or_blank(Mount)]  # noqa: UP007 of as many as there are
