"""The kinds of storage, each in its own module: its section of cluster.yaml, its checks, the effects of changes, the
nodes' data, the lines of `plan` and `down`. Its construct in stacks/storage and its steps have the same name.

A file system that exists already, which the file names by its id, is a kind of its own: existing/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

from pydantic_core import PydanticKnownError

from gpucluster.config.section import Separate, or_blank
from gpucluster.config.storage.beegfs import BeegfsRam as BeegfsRam
from gpucluster.config.storage.ebs import Ebs as Ebs
from gpucluster.config.storage.efs import Efs as Efs
from gpucluster.config.storage.existing import Existing as Existing
from gpucluster.config.storage.existing import ExistingEfs as ExistingEfs
from gpucluster.config.storage.existing import ExistingLustre as ExistingLustre
from gpucluster.config.storage.existing import Ontap as Ontap
from gpucluster.config.storage.existing import OpenZfs as OpenZfs
from gpucluster.config.storage.fsx import DataRepository as DataRepository
from gpucluster.config.storage.fsx import FsxLustre as FsxLustre
from gpucluster.config.storage.home import HOME_ON_HEAD as HOME_ON_HEAD
from gpucluster.config.storage.home import HeadNfs as HeadNfs
from gpucluster.config.storage.mount import Mount as Mount

KINDS: tuple[type[Mount], ...] = (FsxLustre, BeegfsRam, HeadNfs, Efs, Ebs, ExistingLustre, ExistingEfs, OpenZfs, Ontap)
TYPES = {kind: get_args(kind.model_fields["type"].annotation)[0] for kind in KINDS}
"""The kinds by their names in cluster.yaml. Two kinds may have the same: `kind_of` tells them apart."""
NAMES = tuple(dict.fromkeys(TYPES.values()))
OF_EXISTING = ("file_system_id", "access_point_id")
"""Keys that only a file system that exists has: an entry without them, or with null, means a new one."""


def kind_of(entry: Any) -> type[Mount] | None:
    """The kind that the entry names with `type`. None if there is none."""
    values = entry if isinstance(entry, dict) else vars(entry)
    named = [kind for kind, each in TYPES.items() if each == values.get("type")]
    exists = any(values.get(key) is not None for key in OF_EXISTING)
    return next((kind for kind in named if issubclass(kind, Existing) is exists), next(iter(named), None))


def _read(entry: Any) -> Mount:
    """Reads an entry as its kind. Validators are built only for kinds that a file has."""
    is_entry = isinstance(entry, (dict, Mount))
    if kind := kind_of(entry) if is_entry else None:
        if isinstance(entry, dict):
            entry = {key: value for key, value in entry.items() if value is not None or key not in OF_EXISTING}
        return kind.model_validate(entry)
    name = entry.get("type") if isinstance(entry, dict) else None
    if name is None:
        raise PydanticKnownError("union_tag_not_found", {"discriminator": "type"})
    expected = ", ".join(map(repr, NAMES))
    raise PydanticKnownError(
        "union_tag_invalid", {"discriminator": "type", "tag": ascii(name), "expected_tags": expected}
    )


if TYPE_CHECKING:
    Storage = Mount
else:
    Storage = Annotated[Union[KINDS], Separate(_read), or_blank(Mount)]  # noqa: UP007 of as many as there are
