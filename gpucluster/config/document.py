"""What was read from a YAML file, with the place of every key and value, so that a finding can point at one.

Knows nothing of what the keys mean. `parse` fills it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gpucluster.errors import Notice

Path = tuple[str | int, ...]
Level = Literal["error", "warning"]
Position = tuple[int, int]
"""Line and column, from 1."""


@dataclass(frozen=True)
class Finding:
    """Something to say about one key, before it is known where in the file the key stands."""

    path: Path
    message: str
    hint: str | None = None
    level: Level = "error"
    at: Literal["value", "key"] = "value"
    validator: str = ""
    """Whose finding it is; empty where the file itself is malformed."""


@dataclass(frozen=True)
class Document:
    file: str = "cluster.yaml"
    lines: tuple[str, ...] = ()
    data: Any = None
    values: dict[Path, Position] = field(default_factory=dict)
    keys: dict[Path, Position] = field(default_factory=dict)
    problems: tuple[Notice, ...] = ()
    """What is wrong with the YAML itself."""

    def notice(self, finding: Finding) -> Notice:
        place = self._position(finding.path, finding.at)
        key = key_of(finding.path)
        return self.notice_at(place, finding.message, finding.hint, key, finding.level, finding.validator)

    def notice_at(
        self,
        place: Position,
        message: str,
        hint: str | None = None,
        key: str = "",
        level: Level = "error",
        validator: str = "",
    ) -> Notice:
        line, column = place
        source = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return Notice(level, self.file, line, column, key, message, source, hint, validator)

    def _position(self, path: Path, at: Literal["value", "key"]) -> Position:
        """Of the value or key; for a key that the file leaves out, of the nearest section around it."""
        if at == "value" and path in self.values:
            return self.values[path]
        while path:
            place = self.keys.get(path) or self.values.get(path)
            if place:
                return place
            path = path[:-1]
        return self.values.get((), (1, 1) if self.lines else (0, 0))


def key_of(path: Path) -> str:
    """`partitions[0].efa`, as people write it."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
