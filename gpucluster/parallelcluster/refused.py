"""Takes out of force what GpuCluster's own checks refuse, and says so with their words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpucluster.config import loads
from gpucluster.errors import ConfigError, Notice
from gpucluster.parallelcluster.conversion import Conversion
from gpucluster.parallelcluster.lines import Item, Page

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
            errors = [each for each in error.problems if each.level == "error"]
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
            said = f"{error.message}; {error.hint}" if error.hint else error.message
            item.off = f"not carried over: {error.key}: {said}"
            conversion.check(f"{_anywhere(error.key)} is a comment: {error.message}")
            return True
    return False


def _last_partition(section: Item) -> Item | None:
    """The only entry in force, without which there would be no cluster."""
    entries = [each for each in section.below if each.in_force]
    return entries[0] if section.key == "partitions" and len(entries) == 1 else None


def _anywhere(key: str) -> str:
    """partitions[3].scripts is partitions[].scripts: one sentence for all partitions."""
    return re.sub(r"\[\d+\]", "[]", key)
