"""In what two cluster files differ: key by key, entries of lists matched by what names them.

A partition is matched by its name, a storage by its mount, a data repository by its path, an S3 grant by its address:
in another order they are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpucluster.config import ClusterConfig

NAMED_BY = {"partitions": "name", "storage": "mount", "storage[].data_repositories": "path", "s3_access": "uri"}
UNORDERED = frozenset(
    {
        "network.ssh_from",
        "software.frameworks",
        "silence",
        "storage[].data_repositories[].import",
        "storage[].data_repositories[].export",
    }
)

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """`old` or `new` is None where the key was not, or is no longer, there."""

    key: str
    """As the table of policies has it: `partitions[].max_nodes`."""
    path: str
    """As people read it: `partitions[train].max_nodes`."""
    entries: tuple[str, ...]
    """The list entries that lead there: `("train",)`."""
    old: Any
    new: Any


@dataclass(frozen=True)
class _Place:
    key: str = ""
    path: str = ""
    entries: tuple[str, ...] = ()

    def of_key(self, name: str) -> _Place:
        dot = "." if self.key else ""
        return _Place(f"{self.key}{dot}{name}", f"{self.path}{dot}{name}", self.entries)

    def of_entry(self, name: str) -> _Place:
        return _Place(f"{self.key}[]", f"{self.path}[{name}]", (*self.entries, name))

    def differs(self, old: Any, new: Any) -> Difference:
        return Difference(self.key, self.path, self.entries, old, new)


def plain(config: ClusterConfig) -> dict[str, Any]:
    """Every key with its value or default, as JSON knows it; /home is there whether the file names it or not."""
    values = config.model_dump(mode="json", by_alias=True)
    if all(storage["mount"] != "/home" for storage in values["storage"]):
        values["storage"].append(config.home.model_dump(mode="json", by_alias=True))
    return values


def differences(old: Values, new: Values) -> list[Difference]:
    """Both of `plain`."""
    return list(_in_section(_Place(), old, new))


def _in_section(place: _Place, old: Values, new: Values) -> Iterator[Difference]:
    for name in dict.fromkeys([*old, *new]):
        yield from _in_value(place.of_key(name), old.get(name), new.get(name))


def _in_value(place: _Place, old: Any, new: Any) -> Iterator[Difference]:
    if place.key in NAMED_BY:
        yield from _in_entries(place, old or (), new or ())
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from _in_section(place, old, new)
    elif _comparable(place.key, old) != _comparable(place.key, new):
        yield place.differs(old, new)


def _comparable(key: str, value: Any) -> Any:
    return sorted(value or ()) if key in UNORDERED else value


def _in_entries(place: _Place, old: Sequence[Values], new: Sequence[Values]) -> Iterator[Difference]:
    name = NAMED_BY[place.key]
    before, after = ({entry[name]: entry for entry in entries} for entries in (old, new))
    for each in dict.fromkeys([*before, *after]):
        yield from _in_entry(place.of_entry(each), before.get(each), after.get(each))
    if place.key == "partitions" and old[0][name] != new[0][name]:
        yield place.differs(old[0][name], new[0][name])


def _in_entry(place: _Place, old: Values | None, new: Values | None) -> Iterator[Difference]:
    if old is None or new is None:
        yield place.differs(old, new)
    elif old.get("type") != new.get("type"):
        yield place.of_key("type").differs(old["type"], new["type"])
    else:
        yield from _in_section(place, old, new)
