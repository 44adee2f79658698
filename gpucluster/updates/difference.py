"""The differences between two cluster files, key by key. List entries are matched by an identifying key.

Partitions are matched by name, storage by mount, data repositories by path, S3 grants by address, users by name: their
order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

from gpucluster.config import ClusterConfig
from gpucluster.config.checks.entries import entries
from gpucluster.config.document import Path
from gpucluster.config.outcome import Difference
from gpucluster.config.scripts import Script

NAMED_BY = {
    "partitions": "name",
    "storage": "mount",
    "storage[].data_repositories": "path",
    "s3_access": "uri",
    "users": "name",
}
UNORDERED = frozenset(
    {
        "network.ssh_from",
        "network.no_proxy",
        "head_node.security_groups",
        "partitions[].security_groups",
        "parameter_servers.security_groups",
        "security.policies.head",
        "security.policies.nodes",
        "security.policies.jobs",
        "software.frameworks",
        "silence",
        "storage[].data_repositories[].import",
        "storage[].data_repositories[].export",
    }
)
WHOLE = frozenset({"tags", "partitions[].partition_options", "partitions[].node_options"})
"""Keys whose value is a section with names of the user's own."""

Values = Mapping[str, Any]


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
    """Every key with its value or default, as JSON types; always with /home, and with the SHA-256 of local scripts: a
    file may change and keep its name."""
    values = config.model_dump(mode="json", by_alias=True)
    if all(storage["mount"] != "/home" for storage in values["storage"]):
        values["storage"].append(config.home.model_dump(mode="json", by_alias=True))
    for path, script in entries(config, Script):
        if script.is_local and script.sha256 is None:
            _at(values, path)["sha256"] = script.digest(config.folder)
    return values


def _at(values: Any, path: Path) -> Any:
    return reduce(getitem, path, values)


def differences(old: Values, new: Values) -> list[Difference]:
    """Both are results of `plain`."""
    return list(_in_section(_Place(), old, new))


def _in_section(place: _Place, old: Values, new: Values) -> Iterator[Difference]:
    for name in dict.fromkeys([*old, *new]):
        yield from _in_value(place.of_key(name), old.get(name), new.get(name))


def _in_value(place: _Place, old: Any, new: Any) -> Iterator[Difference]:
    if place.key in NAMED_BY:
        yield from _in_entries(place, old or (), new or ())
    elif isinstance(old, dict) and isinstance(new, dict) and place.key not in WHOLE:
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
    elif _kind(old) != _kind(new):
        yield place.of_key("type").differs(_kind(old), _kind(new))
    else:
        yield from _in_section(place, old, new)


def _kind(entry: Values) -> str | None:
    """A storage's type: a file system that exists is another kind than a new one."""
    return f"{entry['type']} that exists" if entry.get("file_system_id") else entry.get("type")
