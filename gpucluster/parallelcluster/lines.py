"""The lines of a commented cluster.yaml, made from items that can be taken out of force one by one."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpucluster.parallelcluster.reading import Path

WIDTH = 120
COMMENTS = 44
"""The column of comments behind values."""
_PLAIN = re.compile(r"[A-Za-z/][\w./@+=-]*(:[\w./@+=-]+)*")
_NOT_TEXT = {"true", "false", "null"}
"""In YAML 1.2, which cluster.yaml is, on and off are text."""


class Text(str):
    """Lines of a literal block."""


@dataclass(eq=False)
class Item:
    """One key with its value: a scalar, a flow (dict or list), a Text, items below it, or entries of a list."""

    key: str
    value: Any
    comment: str = ""
    above: list[str] = field(default_factory=list)
    off: str = ""
    """Why it is a comment and not in force."""
    needed: bool = False
    """The item around it makes no sense without it."""
    sources: tuple[Path, ...] = ()
    """The values of the file that became it."""

    @property
    def below(self) -> list[Item]:
        own = self.value if isinstance(self.value, list) else []
        return [each for each in own if isinstance(each, Item)]

    @property
    def in_force(self) -> bool:
        return not self.off and (not self.below or any(each.in_force for each in self.below))

    def origins(self, in_force: bool = True) -> Iterator[tuple[Path, bool]]:
        """Every source of it and of the items below it, and whether what became of it is in force."""
        in_force = in_force and self.in_force
        for source in self.sources:
            yield source, in_force
        for each in self.below:
            yield from each.origins(in_force)


def entry(*items: Item | None) -> Item:
    """An entry of a list of sections."""
    return Item("-", [each for each in items if each])


class Page:
    """Rendered lines, each with the items around it, the outermost first."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.owners: list[tuple[Item, ...]] = []
        self._said: set[str] = set()

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def add(self, line: str, owners: tuple[Item, ...] = ()) -> None:
        self.lines.append(line)
        self.owners.append(owners)

    def once(self, comment: str) -> str:
        """The comment, unless an earlier line has it."""
        if comment in self._said:
            return ""
        self._said.add(comment)
        return comment

    def note(self, text: str, indent: str = "") -> None:
        for line in textwrap.wrap(
            _one_line(text.replace("`", "")), WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False
        ):
            self.add(f"{indent}# {line}")

    def item(self, item: Item, indent: str = "", around: tuple[Item, ...] = (), lead: str = "") -> None:
        """`lead`: what stands before the key of the first line: `- ` of a list's entry."""
        owners = (*around, item)
        for comment in (*item.above, item.off):
            if comment and self.once(comment):
                self.note(comment, indent)
        off = "" if item.in_force and all(each.in_force for each in around) else "# "
        head, deeper = f"{indent}{off}{lead}{item.key}:", indent + " " * len(lead) + "  "
        if item.below:
            self._line(head, item, owners)
            self._below(item, deeper, owners)
        elif isinstance(item.value, Text):
            self._line(head + " |", item, owners)
            for line in item.value.splitlines():
                self.add(f"{deeper}{off}{line}", owners)
        elif isinstance(item.value, list) and (sections(item.value) or len(f"{head} {flow(item.value)}") > WIDTH):
            self._line(head, item, owners)
            for each in item.value:
                self.add(f"{deeper}{off}- {flow(each)}", owners)
        elif isinstance(item.value, dict) and len(f"{head} {flow(item.value)}") > WIDTH:
            self._line(head, item, owners)
            for key, each in item.value.items():
                self.add(f"{deeper}{off}{scalar(key)}: {flow(each)}", owners)
        else:
            self._line(f"{head} {flow(item.value)}", item, owners)

    def _below(self, item: Item, indent: str, owners: tuple[Item, ...]) -> None:
        for each in item.below:
            if each.key != "-":
                self.item(each, indent, owners)
                continue
            for comment in (*each.above, each.off):
                if comment and self.once(comment):
                    self.note(comment, indent)
            shown = each.below if not each.in_force else sorted(each.below, key=lambda own: not own.in_force)
            for number, own in enumerate(shown):
                self.item(own, indent if not number else indent + "  ", (*owners, each), "" if number else "- ")

    def _line(self, line: str, item: Item, owners: tuple[Item, ...]) -> None:
        comment = self.once(_one_line(item.comment.replace("`", ""))) if item.comment else ""
        whole = f"{line:<{COMMENTS - 2}}  # {comment}" if comment else line
        if len(whole) > WIDTH and comment:
            self.note(comment, line[: len(line) - len(line.lstrip())])
            whole = line
        self.add(whole, owners)


def sections(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(each, dict) for each in value)


def flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:g}"
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return str(value)
    return json.dumps(value, ensure_ascii=not value.isprintable())


def _one_line(text: str) -> str:
    """A line break of the file's own value, which may be one of Unicode's, would end the comment."""
    return " ".join(text.split())
