"""A ParallelCluster file as it is read: each value that the conversion uses is marked, so that no key is lost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gpucluster.parallelcluster.keys import How

Path = tuple[str | int, ...]
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""ParallelCluster reads YAML 1.1: https://yaml.org/type/bool.html."""


class Marks:
    """Which values were used, and which were left out although their key has a counterpart."""

    def __init__(self) -> None:
        self.used: set[Path] = set()
        self.why: dict[Path, tuple[How, str]] = {}
        """Path of a leaf or of a section -> what becomes of it instead of what the table says, and why."""

    def is_used(self, path: Path) -> bool:
        return any(path[:length] in self.used for length in range(1, len(path) + 1))

    def reason(self, path: Path) -> tuple[How, str] | None:
        return next((self.why[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.why), None)


class Node:
    """A section of the file. A key that is missing, or has a value of another type, reads as its default."""

    def __init__(self, data: Any, marks: Marks, path: Path = ()) -> None:
        self.data: Mapping[str, Any] = data if isinstance(data, dict) else {}
        self.marks, self.path = marks, path

    def __bool__(self) -> bool:
        return bool(self.data)

    def section(self, *keys: str) -> Node:
        node = self
        for key in keys:
            node = Node(node.data.get(key), self.marks, (*node.path, key))
        return node

    def sections(self, key: str) -> list[Node]:
        entries = self.data.get(key)
        entries = entries if isinstance(entries, list) else []
        return [Node(entry, self.marks, (*self.path, key, index)) for index, entry in enumerate(entries)]

    def text(self, key: str, default: str = "") -> str:
        value = self.data.get(key)
        if value is None or isinstance(value, (dict, list)):
            return default
        self._mark(key)
        return str(value).lower() if isinstance(value, bool) else str(value).strip()

    def number(self, key: str, default: int | None = None) -> int | None:
        value = self.data.get(key)
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return default
        self._mark(key)
        return int(value)

    def flag(self, key: str, default: bool | None = None) -> bool | None:
        value = self.data.get(key)
        if isinstance(value, str):
            value = _BOOLEANS.get(value.strip().lower())
        if not isinstance(value, bool):
            return default
        self._mark(key)
        return value

    def texts(self, key: str) -> list[str]:
        value = self.data.get(key)
        if not isinstance(value, list):
            return []
        self._mark(key)
        return [str(each).strip() for each in value if not isinstance(each, (dict, list))]

    def settings(self, key: str) -> dict[str, str]:
        """A mapping whose keys are not ParallelCluster's own."""
        value = self.data.get(key)
        if not isinstance(value, dict):
            return {}
        self._mark(key)
        return {name: "" if each is None else str(each) for name, each in value.items()}

    def leave(self, key: str, why: str, how: How = "none") -> None:
        """The key, if it is there, is not carried over."""
        if key in self.data:
            self.marks.why[*self.path, key] = how, why

    def _mark(self, key: str) -> None:
        self.marks.used.add((*self.path, key))


def leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of the file; an empty section is one, too."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    elif isinstance(data, list) and data:
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    else:
        yield path, data


def dotted(path: Path) -> str:
    """The key, without the places in lists: SlurmQueues.Name."""
    return ".".join(part for part in path if isinstance(part, str))
