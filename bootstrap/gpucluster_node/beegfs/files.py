"""Fills a job's storage in memory before its command starts, and writes back what is new there at its end.

usage: ram_files fill|export MOUNT ADDRESS [PART OF]

Runs as the job's user, once on each of its nodes: node number PART of OF copies its share.
"""

from __future__ import annotations

import heapq
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpucluster_node.beegfs.places import COPY_ERRORS, Item, Place, Refused, place, walk

OWN = ".gpucluster"
"""A folder at the top of the mount: what was filled, so that it is not written back."""
COPIES_AT_ONCE = 16
GIB = 2**30


def shares(items: Iterable[Item], of: int) -> list[list[Item]]:
    """Parts of about the same size: the largest first, each to whoever has the least. The same on every node."""
    parts: list[list[Item]] = [[] for _ in range(of)]
    loads = [(0, part) for part in range(of)]
    for item in sorted(items, key=lambda each: (-each.size, each.name)):
        load, part = heapq.heappop(loads)
        parts[part].append(item)
        # an empty file has its cost as well
        heapq.heappush(loads, (load + item.size + 1, part))
    return parts


def fill(mount: Path, source: Place, address: str, part: int = 0, of: int = 1) -> list[Item]:
    """Raises Refused before anything is copied where the source is empty or does not fit."""
    _require_mount(mount)
    items = list(source.items())
    if not items:
        raise Refused(f"there is nothing at {address}")
    _require_room(mount, sum(item.size for item in items), address)
    mine = shares(items, of)[part]
    for folder in {(mount / item.name).parent for item in mine}:
        folder.mkdir(parents=True, exist_ok=True)
    _all(mine, lambda item: source.fetch(item, mount / item.name), f"could not be read from {address}")
    seen = [(item.name, *_stamp(mount / item.name)) for item in mine]
    (mount / OWN / f"filled-{part}.json").write_text(json.dumps(seen))
    return mine


def export(mount: Path, target: Place, address: str, part: int = 0, of: int = 1) -> list[Item]:
    """What the job made or changed. What it deleted stays where it is."""
    _require_mount(mount)
    mine = shares(changed(mount), of)[part]
    _all(mine, lambda item: target.store(mount / item.name, item.name), f"did not reach {address}")
    return mine


def changed(mount: Path) -> list[Item]:
    """Since the filling."""
    filled = {
        name: (size, mtime_ns)
        for listed in (mount / OWN).glob("filled-*.json")
        for name, size, mtime_ns in json.loads(listed.read_text())
    }
    return [item for item in walk(mount, without=OWN) if filled.get(item.name) != _stamp(mount / item.name)]


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
    """Every one is tried, so that one bad file does not keep the others in memory. Raises Refused."""

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


def main(verb: str, mount: str, address: str, part: str = "0", of: str = "1") -> str:
    """What was done, in words. Raises Refused."""
    began, work = time.monotonic(), {"fill": fill, "export": export}[verb]
    try:
        done = work(Path(mount), place(address), address, int(part), int(of))
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
