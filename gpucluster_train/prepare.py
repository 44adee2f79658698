"""Before the ranks start, on the job's first node: lists each channel, and checks whether it can be shared as asked.

A requeued job continues with the list of its first run, so that its ranks have the same shards.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict

from gpucluster_train.channels import INDEX, ChannelError
from gpucluster_train.sources import Listing, listing

Index = Dict[str, Any]
MANY = 50_000
"""The number of shards above which a warning is logged. Every rank reads the whole list when it starts."""


def index_of(asked: Mapping[str, str], found: Listing, seed: str, nodes: Sequence[str]) -> Index:
    return {
        "version": 1,
        "source": asked["source"],
        "root": found.root,
        **{key: asked[key] for key in ("shard", "mode", "unpack")},
        "seed": seed,
        "nodes": list(nodes),
        "shards": [asdict(shard) for shard in found.shards],
        "classes": list(found.classes),
        "versions": dict(found.versions) if asked["mode"] == "copy" else {},
    }


def check(name: str, index: Index, world_size: int) -> None:
    """Raises ChannelError if a rank or node would have nothing to read."""
    count, nodes = len(index["shards"]), len(index["nodes"])
    sharers = {"by-rank": world_size, "by-node": nodes, "none": 1}[index["shard"]]
    if count < sharers:
        who = "ranks" if index["shard"] == "by-rank" else "nodes"
        others = ", shard: by-node" if index["shard"] == "by-rank" and count >= nodes else ""
        raise ChannelError(
            f"{index['source']} has {count} shard{'s' * (count > 1)} for {sharers} {who}: make at least {sharers} "
            f"(gpucluster data shard --shards), use fewer {who}{others} or shard: none"
        )


def again(index: Index, before: Index) -> tuple[Index, str]:
    """The list of the first run, for the nodes of this run. Raises ChannelError if shards of it are missing."""
    now = {shard["name"]: shard["size_bytes"] for shard in index["shards"]}
    then = {shard["name"]: shard["size_bytes"] for shard in before["shards"]}
    lost = sorted(name for name, size in then.items() if now.get(name) != size)
    if lost:
        raise ChannelError(
            f"{index['source']}: {len(lost)} of the {len(then)} shards of the job's first run are missing or changed, "
            f"first {lost[0]}: put them back, or submit a new job"
        )
    more = len(now) - len(then)
    were, are = ("shard was", "is") if more == 1 else ("shards were", "are")
    note = f"{more} {were} added after the job's first run and {are} ignored" if more else ""
    versions = {name: index["versions"][name] for name in before["versions"] if name in index["versions"]}
    return {**before, "nodes": index["nodes"], "root": index["root"], "versions": versions}, note


def summary(index: Index, world_size: int) -> str:
    total = sum(shard["size_bytes"] for shard in index["shards"])
    samples = [shard["samples"] for shard in index["shards"]]
    known = "" if None in samples else f", {sum(samples)} samples"
    sharers = {"by-rank": world_size, "by-node": len(index["nodes"])}.get(index["shard"])
    each = "all to every rank" if sharers is None else f"{_shares(len(samples), sharers)} to each {index['shard'][3:]}"
    count = f"{len(samples)} shard{'s' * (len(samples) != 1)}"
    return f"{index['source']}: {count}, {in_words(total)}{known}; {each}, mode {index['mode']}"


def _shares(count: int, sharers: int) -> str:
    least, more = divmod(count, sharers)
    return f"{least} or {least + 1}" if more else str(least)


def in_words(count: int) -> str:
    """A number of bytes with a binary unit, such as 1.5 GiB."""
    size, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def remarks(found: Listing) -> list[str]:
    many = len(found.shards) > MANY
    pack = f"{len(found.shards)} files take long to list and to open: pack them with gpucluster data shard"
    return [*found.notes, pack] if many else list(found.notes)


def prepare(name: str, asked: Mapping[str, str], folder: Path, environment: Mapping[str, str]) -> None:
    nodes = (folder / "nodes.txt").read_text(encoding="utf-8").split()
    found = listing(asked["source"])
    index = index_of(asked, found, environment.get("GPUCLUSTER_SEED", "0"), nodes)
    path, notes = folder / name / INDEX, remarks(found)
    if int(environment.get("SLURM_RESTART_COUNT", "0")) and path.is_file():
        index, note = again(index, json.loads(path.read_text(encoding="utf-8")))
        notes.append(note)
    world_size = int(environment["WORLD_SIZE"])
    check(name, index, world_size)
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in (*path.parent.glob("on-*"), *path.parent.glob("rank-*")):
        stale.unlink()
    partial = path.with_name(".index.json.new")
    partial.write_text(json.dumps(index) + "\n", encoding="utf-8")
    partial.replace(path)
    print(f"[channels] {name}: {summary(index, world_size)}")
    for note in filter(None, notes):
        print(f"[channels] {name}: warning: {note}")


def main() -> int:
    job = Path(os.environ["GPUCLUSTER_JOB_DIR"])
    channels: dict[str, dict[str, str]] = json.loads((job / "channels.json").read_text(encoding="utf-8"))
    problems = []
    for name, asked in channels.items():
        try:
            prepare(name, asked, job / "channels", os.environ)
        except ChannelError as error:
            problems.append(f"channel {name}: {error}")
    if problems:
        print(f"error: {'; '.join(problems)}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
