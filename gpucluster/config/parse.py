"""Parses YAML text into a Document. It never raises: errors are among the document's problems.

ruamel.yaml composes the nodes, which have line and column; they are turned into values here, because plain values
have no position. Imported only when a file is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.reader import ReaderError

from gpucluster.config import invisible
from gpucluster.config.document import Document, Path, Position, Written, WrittenFloat, WrittenInt
from gpucluster.config.scanner import TabScanner
from gpucluster.errors import Notice

MAX_VALUES = 10_000
"""More than any cluster needs. Nested aliases reach this limit quickly."""

MAX_DEPTH = 50

_LINE_BREAKS = ("\r\n", "\r", "\x85", "\u2028", "\u2029")
"""Besides \\n. A pattern with the last two takes Python a millisecond to compile."""
BYTE_ORDER_MARK = "\ufeff"
_TAG = "tag:yaml.org,2002:"
_CONTAINS_ITSELF = "this alias refers to a value that contains the alias itself"
_TOO_DEEP = "nested too deeply"
_ONE_MERGE = "merge several mappings as a list: <<: [*one, *two]"

_Pairs = dict[str, tuple[Node, Node]]
"""The nodes of a key and its value, by key."""


class _Malformed(Exception):
    def __init__(self, position: Position, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.position, self.message, self.hint = position, message, hint


def parse(text: str, file: str) -> Document:
    """`data` is None if the text is empty or cannot be read."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    document = Document(file, _lines(text))
    try:
        reading = _Reading()
        node = _compose(text)
        data = None if node is None else _without_extensions(reading.value(node, ()))
    except _Malformed as error:
        return document._replace(problems=(_at(document, error),))
    document = document._replace(data=data, values=reading.values, keys=reading.keys)
    return document._replace(problems=tuple(_at(document, error) for error in reading.problems))


def _without_extensions(data: Any) -> Any:
    """Without the keys `x-…` of the whole file, which hold values for anchors, as in Docker Compose:
    https://docs.docker.com/reference/compose-file/extension/."""
    if not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if not key.startswith("x-")}


def _lines(text: str) -> tuple[str, ...]:
    for each in _LINE_BREAKS:
        text = text.replace(each, "\n")
    return tuple(text.split("\n"))


def _at(document: Document, error: _Malformed) -> Notice:
    return document.notice_at(error.position, error.message, error.hint or _above(document, error.position[0]))


def _above(document: Document, line: int) -> str | None:
    """`-\u00a0name: a` is a key, so that only the next line is refused."""
    if line < 2 or invisible.strange(document.lines[line - 1]):
        return None
    strange = invisible.strange(document.lines[line - 2])
    return f"in line {line - 1}, {strange}" if strange else None


def _compose(text: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = TabScanner
    try:
        node: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        raise _malformed(error) from None
    except ReaderError as error:
        before = text[: error.position]
        position = (before.count("\n") + 1, error.position - before.rfind("\n"))
        character = invisible.name_of(text[error.position])
        raise _Malformed(position, f"not valid YAML: it contains a {character}") from None
    except RecursionError:
        raise _Malformed((1, 1), _TOO_DEEP) from None
    except (YAMLError, ValueError, KeyError, IndexError, AttributeError, AssertionError, TypeError) as error:
        # the parser's own exceptions on broken text, such as a stray tag handle, are reported as errors of the text too
        raise _Malformed((1, 1), f"not valid YAML: {error}") from None
    return node


def _malformed(error: MarkedYAMLError) -> _Malformed:
    mark = error.problem_mark or error.context_mark
    position = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    reason = " ".join(str(part) for part in (error.problem, error.context) if part)
    start = error.context_mark
    if start and error.problem_mark and start.line != error.problem_mark.line:
        reason += f" that starts in line {start.line + 1}"
    hint = None
    if "'\\t'" in reason:
        indents = "cannot start any token" in reason
        hint = "indent with spaces: YAML does not allow tabs" if indents else "write a space instead of the tab"
    return _Malformed(position, f"not valid YAML: {reason}", hint)


class _Reading:
    """One walk over the nodes of a document."""

    def __init__(self) -> None:
        self.values: dict[Path, Position] = {}
        self.keys: dict[Path, Position] = {}
        self.problems: list[_Malformed] = []
        self._open: list[Node] = []
        self._flat: dict[int, _Pairs | None] = {}
        """A mapping's node -> its pairs with the merged ones; None while they are read."""
        self._constructor = YAML(typ="safe", pure=True).constructor

    def value(self, node: Node, path: Path) -> Any:
        if node in self._open:
            raise _Malformed(_position(node), _CONTAINS_ITSELF)
        if len(self._open) >= MAX_DEPTH:
            raise _Malformed(_position(node), _TOO_DEEP)
        if len(self.values) >= MAX_VALUES:
            raise _Malformed(
                _position(node),
                f"more than {MAX_VALUES} values; the values behind an alias (*name) count each time it is used",
            )
        self.values[path] = _position(node)
        self._open.append(node)
        try:
            return self._read(node, path)
        finally:
            self._open.pop()

    def _read(self, node: Node, path: Path) -> Any:
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, (key_node, value_node) in self._pairs(node).items():
            self.keys[*path, key] = _position(key_node)
            result[key] = self.value(value_node, (*path, key))
        return result

    def _pairs(self, node: MappingNode, depth: int = 0) -> _Pairs:
        """The mapping's own pairs, then merged pairs (`<<: *other`) with other keys. A merged mapping may merge others;
        of a list, an earlier one wins (https://yaml.org/type/merge.html)."""
        if depth >= MAX_DEPTH:
            raise _Malformed(_position(node), _TOO_DEEP)
        if id(node) not in self._flat:
            self._flat[id(node)] = None
            pairs = self._own_pairs(node)
            for source in self._merged(node):
                pairs = self._pairs(source, depth + 1) | pairs
            self._flat[id(node)] = pairs
        flat = self._flat[id(node)]
        if flat is None:
            raise _Malformed(_position(node), _CONTAINS_ITSELF)
        return flat

    def _own_pairs(self, node: MappingNode) -> _Pairs:
        own: _Pairs = {}
        for key_node, value_node in node.value:
            key = "<<" if _merges(key_node) else key_node.value
            if not isinstance(key, str):
                self._problem(key_node, "a key must be a plain word")
            elif key in own:
                first = f"first in line {_position(own[key][0])[0]}"
                self._problem(key_node, f"{key!r} is given twice", _ONE_MERGE if _merges(key_node) else first)
            else:
                own[key] = (key_node, value_node)
        return {key: pair for key, pair in own.items() if not _merges(pair[0])}

    def _merged(self, node: MappingNode) -> Iterator[MappingNode]:
        for key, value in node.value:
            if _merges(key):
                for source in value.value if isinstance(value, SequenceNode) else [value]:
                    if isinstance(source, MappingNode):
                        yield source
                    else:
                        self._problem(key, "<< can merge only mappings")

    def _scalar(self, node: Node) -> Any:
        kind = str(node.tag).removeprefix(_TAG)
        try:
            match kind:
                case "int":
                    return _written(WrittenInt(self._constructor.construct_yaml_int(node)), node)
                case "float":
                    return _written(WrittenFloat(self._constructor.construct_yaml_float(node)), node)
                case "bool":
                    return self._constructor.construct_yaml_bool(node)
                case "null":
                    return None
                case "str" | "timestamp" | "value" | "merge":
                    return str(node.value)
        except (ValueError, KeyError, IndexError, OverflowError):
            self._problem(node, f"cannot be read as {kind}: {str(node.value)[:40]!r}")
            return str(node.value)
        self._problem(node, f"the tag {node.tag} is not supported", "write the value without it")
        return str(node.value)

    def _problem(self, node: Node, message: str, hint: str | None = None) -> None:
        self.problems.append(_Malformed(_position(node), message, hint))


def _written(number: Written, node: Node) -> Written:
    number.text = str(node.value)
    return number


def _merges(key: Node) -> bool:
    return bool(key.tag == f"{_TAG}merge")


def _position(node: Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1
