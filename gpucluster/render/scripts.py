"""The user's own scripts in the bundle: a list for each kind of node, and the local files.

`scripts/head` and `scripts/partitions/NAME` are read by bootstrap/lib/user_scripts.sh; `scripts/files/SHA256` are the
local ones.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpucluster.config.scripts import Script
from gpucluster.layout import Layout

UNPINNED = "-"
FILES = "files"


def files(layout: Layout) -> Mapping[str, str]:
    """Path inside the bundle -> text; empty for a cluster without scripts."""
    folder = layout.config.folder
    of_nodes = {"head": layout.config.head_node.scripts}
    of_nodes |= {f"partitions/{each.name}": each.scripts for each in layout.partitions}
    lists = {f"scripts/{name}": _list(scripts, folder) for name, scripts in of_nodes.items() if scripts}
    local = (each for scripts in of_nodes.values() for each in scripts if each.is_local)
    return lists | {f"scripts/{FILES}/{each.digest(folder)}": each.content(folder).decode() for each in local}


def _list(scripts: Sequence[Script], folder: Path) -> str:
    """Lines of bash that call `user_script WHEN NAME SECONDS SHA256 SOURCE ARG...`."""
    lines = (
        ["user_script", each.when, name, each.time_limit_minutes * 60, *_place(each, folder), *each.args]
        for name, each in zip(names(scripts), scripts, strict=True)
    )
    return "".join(shlex.join(map(str, words)) + "\n" for words in lines)


def _place(script: Script, folder: Path) -> tuple[str, str]:
    digest = script.digest(folder) or UNPINNED
    return digest, f"{FILES}/{digest}" if script.is_local else script.source


def names(scripts: Sequence[Script]) -> Iterator[str]:
    """What the log and the step of each are called: a number tells apart those with one name."""
    count = Counter(each.name for each in scripts)
    for number, each in enumerate(scripts, 1):
        yield f"{number}-{each.name}" if count[each.name] > 1 else each.name
