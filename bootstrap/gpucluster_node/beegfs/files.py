"""Fills a file system in the nodes' memory, and exports new and changed files.

usage: files fill|export MOUNT ADDRESS [PART OF [OWNER]]

Runs on each of its nodes: node number PART of OF, from 0, copies its share. A file that is there with the same size is
not copied again. A job's user fills and exports the job's file system; root fills that of a cluster, for OWNER.
"""

from __future__ import annotations

import heapq
import json
import os
import pwd
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpucluster_node.locations import COPY_ERRORS, Item, Location, Refused, location, walk

OWN = ".gpucluster"
"""A folder at the top of the mount: the list of filled files, so that they are not exported."""
UNFINISHED = ".gpucluster-unfinished"
"""The suffix of a file that is not complete yet."""
COPIES_AT_ONCE = 16
GIB = 2**30


def shares(items: Iterable[Item], of: int) -> list[list[Item]]:
    """Parts of about the same size: the largest files first, each to the node with the least. The same result on every
    node."""
    parts: list[list[Item]] = [[] for _ in range(of)]
    loads = [(0, part) for part in range(of)]
    for item in sorted(items, key=lambda each: (-each.size, each.name)):
        load, part = heapq.heappop(loads)
        parts[part].append(item)
        # an empty file takes time as well
        heapq.heappush(loads, (load + item.size + 1, part))
    return parts


def fill(mount: Path, source: Location, address: str, part: int = 0, of: int = 1, owner: str = "") -> list[Item]:
    """Raises Refused before copying if the source is empty or does not fit.

    Files copied for an `owner` are not listed, because nobody exports them.
    """
    _require_mount(mount)
    items = list(source.items())
    if not items:
        raise Refused(f"there is nothing at {address}")
    _require_room(mount, sum(item.size for item in items), address)
    mine = shares(items, of)[part]
    ids = _ids(owner) if owner else None
    for folder in sorted({(mount / item.name).parent for item in mine}):
        _make_folders(mount, folder, ids)
    _all(mine, lambda item: _fetch(source, item, mount / item.name, ids), f"could not be copied from {address}")
    if ids is None:
        seen = [(item.name, *_stamp(mount / item.name)) for item in mine]
        (mount / OWN / f"filled-{part}.json").write_text(json.dumps(seen))
    return mine


def _ids(owner: str) -> tuple[int, int]:
    entry = pwd.getpwnam(owner)
    return entry.pw_uid, entry.pw_gid


def _make_folders(root: Path, folder: Path, ids: tuple[int, int] | None) -> None:
    if folder == root or folder.is_dir():
        return
    _make_folders(root, folder.parent, ids)
    folder.mkdir(exist_ok=True)
    if ids:
        os.chown(folder, *ids)


def _fetch(source: Location, item: Item, target: Path, ids: tuple[int, int] | None) -> None:
    """Writes under another name first: a file with its own name is complete."""
    if target.exists() and target.stat().st_size == item.size:
        return
    new = target.with_name(target.name + UNFINISHED)
    try:
        source.fetch(item, new)
        if ids:
            new.chmod(0o644)
            os.chown(new, *ids)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def export(mount: Path, target: Location, address: str, part: int = 0, of: int = 1) -> list[Item]:
    """Files that the job created or changed. Files that it deleted stay at the target."""
    _require_mount(mount)
    mine = shares(changed(mount), of)[part]
    _all(mine, lambda item: target.store(mount / item.name, item.name), f"did not reach {address}")
    return mine


def changed(mount: Path) -> list[Item]:
    """Changed since the filling."""
    filled = {
        name: (size, mtime_ns)
        for listed in (mount / OWN).glob("filled-*.json")
        for name, size, mtime_ns in json.loads(listed.read_text())
    }
    whole = (item for item in walk(mount, without=OWN) if not item.name.endswith(UNFINISHED))
    return [item for item in whole if filled.get(item.name) != _stamp(mount / item.name)]


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _require_mount(mount: Path) -> None:
    if not os.path.ismount(mount):
        raise Refused(f"{mount} is not mounted")


def _require_room(mount: Path, size: int, address: str) -> None:
    whole = os.statvfs(mount)
    room = whole.f_blocks * whole.f_frsize
    if size > room:
        sizes = f"{size / GIB:.1f} GiB, and {mount} has {room / GIB:.1f}"
        raise Refused(f"{address} holds {sizes}: take more nodes, more gib_per_node, or a part of the data")


def _all(items: Sequence[Item], copy: Callable[[Item], None], what: str) -> None:
    """Tries every file, so that one bad file does not keep the others in memory. Raises Refused."""

    def attempt(item: Item) -> str | None:
        try:
            copy(item)
        except COPY_ERRORS as error:
            return f"{item.name}: {error}"
        return None

    with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
        failures = [failure for failure in pool.map(attempt, items) if failure]
    if failures:
        raise Refused(f"{len(failures)} of {len(items)} files {what}, the first: {failures[0]}")


def main(verb: str, mount: str, address: str, part: str = "0", of: str = "1", owner: str = "") -> str:
    """A sentence about the result. Raises Refused."""
    began, share = time.monotonic(), (int(part), int(of))
    try:
        if verb == "fill":
            done = fill(Path(mount), location(address), address, *share, owner)
        else:
            done = export(Path(mount), location(address), address, *share)
    except COPY_ERRORS as error:
        raise Refused(f"{address}: {error}") from error
    size, seconds = sum(item.size for item in done) / 2**20, time.monotonic() - began
    word, preposition = ("filled with", "of") if verb == "fill" else ("exported", "to")
    return f"{word} {len(done)} files ({size:,.1f} MiB) {preposition} {address} in {seconds:.1f} s"


if __name__ == "__main__":
    try:
        print(main(*sys.argv[1:]), flush=True)
    except Refused as refusal:
        sys.exit(f"error: {refusal}")
