"""The content of a YAML file with the line and column of every key and value, so that findings can point at them.

Independent of the keys' meaning. `parse` fills it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from gpucluster.config import invisible
from gpucluster.errors import Notice

Path = tuple[str | int, ...]
Level = Literal["error", "warning"]
Position = tuple[int, int]
"""Line and column, from 1."""


class Finding(NamedTuple):
    """A problem of one key, before the key's line is looked up."""

    path: Path
    message: str
    hint: str | None = None
    level: Level = "error"
    at: Literal["value", "key"] = "value"
    validator: str = ""
    """The validator's name; empty if the file itself is malformed."""


class Written:
    """A number of a file, with its text there: where text is asked for, 1.10 and 010 are not 1.1 and 10."""

    text: str


class WrittenInt(Written, int):
    pass


class WrittenFloat(Written, float):
    pass


def as_written(number: float) -> str:
    """For a number that is from no file, Python's own text."""
    return number.text if isinstance(number, Written) else str(number)


class Document(NamedTuple):
    file: str = "cluster.yaml"
    lines: tuple[str, ...] = ()
    data: Any = None
    values: Mapping[Path, Position] = MappingProxyType({})
    keys: Mapping[Path, Position] = MappingProxyType({})
    problems: tuple[Notice, ...] = ()
    """Problems of the YAML itself."""

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
        if level == "error" and (strange := invisible.strange(source)):
            hint = f"{hint}{' ' if hint.endswith('?') else '; '}{strange}" if hint else strange
        return Notice(level, self.file, line, column, key, message, source, hint, validator)

    def _position(self, path: Path, at: Literal["value", "key"]) -> Position:
        """The position of the value or key; for a missing key, that of the nearest section around it."""
        if at == "value" and path in self.values:
            return self.values[path]
        while path:
            place = self.keys.get(path) or self.values.get(path)
            if place:
                return place
            path = path[:-1]
        return self.values.get((), (1, 1) if self.lines else (0, 0))


def key_of(path: Path) -> str:
    """The path as text: `partitions[0].efa`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
