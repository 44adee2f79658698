"""Lists of files to leave out: those that `--exclude` names, and the one that a run makes of what it could not pack.

Each part of an array writes a list of its own; the last job makes one of them all. What was left out already is in it
too, so that it takes the place of the list before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpucluster.data.places import UNFINISHED, Place, place
from gpucluster.errors import UsageError

LIST = f"{UNFINISHED}/bad.txt"
_PART = re.compile(r"bad-\d+\.txt")


def read(url: str) -> list[str]:
    """Names, a line each. Raises UsageError, and GpuClusterError where it may not be read."""
    folder, slash, name = url.rpartition("/")
    content = place(folder or slash or ".").read(name) if name else None
    if content is None:
        raise UsageError(f"--exclude: cannot read {url}: no such file")
    return _names(content)


def _names(content: bytes) -> list[str]:
    lines = (line.rstrip("\r") for line in content.decode(errors="surrogateescape").split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


def _write(target: Place, file: str, names: Iterable[str]) -> None:
    target.write(file, "".join(f"{name}\n" for name in names).encode(errors="surrogateescape"))


def begin(target: Place, names: Iterable[str]) -> None:
    """Instead of what another run has left: `names`, which this one leaves out."""
    names = list(names)
    there = target.sizes(UNFINISHED)
    old = [f"{UNFINISHED}/{file}" for file in there if _PART.fullmatch(file)]
    target.remove([*old, LIST] if not names and LIST.rpartition("/")[2] in there else old)
    if names:
        _write(target, LIST, names)


def note(target: Place, part: int, names: Iterable[str]) -> None:
    """What a part could not pack, instead of what it could not when it ran before."""
    file, names = f"bad-{part}.txt", list(names)
    if names:
        _write(target, f"{UNFINISHED}/{file}", names)
    elif file in target.sizes(UNFINISHED):
        target.remove([f"{UNFINISHED}/{file}"])


def merge(target: Place) -> int:
    """All lists as one; how many files parts could not pack."""
    parts = sorted(file for file in target.sizes(UNFINISHED) if _PART.fullmatch(file))
    bad = {name for file in parts for name in _names(target.read(f"{UNFINISHED}/{file}") or b"")}
    if bad:
        _write(target, LIST, sorted(bad.union(_names(target.read(LIST) or b""))))
    return len(bad)
