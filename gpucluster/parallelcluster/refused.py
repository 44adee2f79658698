"""Takes out of force what GpuCluster's own checks refuse, and says so with their words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpucluster.config import loads
from gpucluster.errors import ConfigError, Notice
from gpucluster.parallelcluster.conversion import Conversion
from gpucluster.parallelcluster.lines import Item, Page, Text

ROUNDS = 100


def without_refused(items: Sequence[Item], conversion: Conversion) -> bool:
    """Returns whether an error remains that no key can be left out for."""
    partitions = next(each for each in items if each.key == "partitions")
    for entry in partitions.below:
        entry.off = entry.off if partitions.in_force else ""
    for _ in range(ROUNDS):
        page = Page()
        for item in items:
            page.item(item)
        try:
            loads(page.text())
        except ConfigError as error:
            each_once = {(each.line, _last_line_first(each)): each for each in error.problems if each.level == "error"}
            errors = sorted(each_once.values(), key=_last_line_first)
            if not any([_take_out(each, page, conversion) for each in errors]):
                for each in errors:
                    _ask(each, page, conversion)
                return True
        else:
            return False
    return True


def _ask(error: Notice, page: Page, conversion: Conversion) -> None:
    """Only the user can say what stands there instead."""
    for item in page.owners[error.line - 1][-1:]:
        item.above.append(f"change this: {error.message}; {error.hint}")
    conversion.check(f"change {error.key}: {error.message}; {error.hint}")


def _take_out(error: Notice, page: Page, conversion: Conversion) -> bool:
    """Turns the smallest part that can be missing into a comment; False if the whole file would have to go."""
    owners = page.owners[error.line - 1] if 0 < error.line <= len(page.owners) else ()
    if any(each.off for each in owners):
        return True
    for item in reversed(owners):
        if item.key == "partitions" or (item.key == "-" and item is _last_partition(owners[0])):
            return False
        if not item.needed:
            part = _part(error, item)
            message = re.sub(r"^line \d+: ", "", error.message) if part else error.message
            said = f"not carried over: {part or error.key}: {message}{'; ' * bool(error.hint)}{error.hint or ''}"
            if part:
                item.above.append(said)
            else:
                item.off = said
            conversion.check(f"{part or _anywhere(error.key)} is a comment: {message}")
            return True
    return False


_LINE = re.compile(r"line (\d+)")


def _last_line_first(error: Notice) -> int:
    """So that the numbers of lines stay right while lines are taken out."""
    found = _LINE.match(error.message)
    return -int(found[1]) if found else 0


def _part(error: Notice, item: Item) -> str:
    """Takes a line or a key out of the item's value, if others remain."""
    if isinstance(item.value, Text) and (found := _LINE.match(error.message)):
        lines = item.value.splitlines()
        if 1 < len(lines) >= int(found[1]):
            part = lines.pop(int(found[1]) - 1)
            item.value = Text("\n".join(lines))
            return part
    if isinstance(item.value, dict) and len(item.value) > 1:
        name = error.key.rpartition(".")[2]
        if name in item.value:
            return f"{name}: {item.value.pop(name)}"
    return ""


def _last_partition(section: Item) -> Item | None:
    """The only entry in force, without which there would be no cluster."""
    entries = [each for each in section.below if each.in_force]
    return entries[0] if section.key == "partitions" and len(entries) == 1 else None


def _anywhere(key: str) -> str:
    """partitions[3].scripts is partitions[].scripts: one sentence for all partitions."""
    return re.sub(r"\[\d+\]", "[]", key)
