"""Lists of files to skip: those of `--exclude`, and the list that a run writes of the files it could not pack.

Each part of an array writes its own list; the last job merges them. The merged list also contains the files that were
already skipped, so it replaces the earlier list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpucluster.data.lists import UTF8
from gpucluster.data.locations import UNFINISHED, Location, location
from gpucluster.encoding import decoded, flaw
from gpucluster.errors import UsageError

LIST = f"{UNFINISHED}/bad.txt"
_PART = re.compile(r"bad-\d+\.txt")


def read(url: str) -> list[str]:
    """Names, one per line. Raises UsageError, or GpuClusterError if it cannot be read."""
    folder, slash, name = url.rpartition("/")
    content = location(folder or slash or ".").read(name) if name else None
    if content is None:
        raise UsageError(f"--exclude: cannot read {url}: no such file")
    try:
        return _names(content)
    except UnicodeDecodeError as error:
        raise UsageError(f"--exclude: {url}: {flaw(error)}", UTF8) from None


def _names(content: bytes) -> list[str]:
    """Names may be any bytes on a disk. Raises UnicodeDecodeError."""
    lines = (line.rstrip("\r") for line in decoded(content, "surrogateescape").split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


def _write(target: Location, file: str, names: Iterable[str]) -> None:
    target.write(file, "".join(f"{name}\n" for name in names).encode(errors="surrogateescape"))


def begin(target: Location, names: Iterable[str]) -> None:
    """Replaces the list of an earlier run by `names`, which this run skips."""
    names = list(names)
    there = target.sizes(UNFINISHED)
    old = [f"{UNFINISHED}/{file}" for file in there if _PART.fullmatch(file)]
    target.remove([*old, LIST] if not names and LIST.rpartition("/")[2] in there else old)
    if names:
        _write(target, LIST, names)


def note(target: Location, part: int, names: Iterable[str]) -> None:
    """Replaces the list of this part's bad files by that of this run."""
    file, names = f"bad-{part}.txt", list(names)
    if names:
        _write(target, f"{UNFINISHED}/{file}", names)
    elif file in target.sizes(UNFINISHED):
        target.remove([f"{UNFINISHED}/{file}"])


def merge(target: Location) -> int:
    """Merges all lists. Returns the number of files that parts could not pack."""
    parts = sorted(file for file in target.sizes(UNFINISHED) if _PART.fullmatch(file))
    bad = {name for file in parts for name in _names(target.read(f"{UNFINISHED}/{file}") or b"")}
    if bad:
        _write(target, LIST, sorted(bad.union(_names(target.read(LIST) or b""))))
    return len(bad)
