"""Copies the channels of mode `copy` to this node's scratch, once before the ranks start.

The node's scratch-cache stores a copy by its content, so a later job with the same data finds it. Incomplete copies
are deleted.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from gpucluster_train import tars
from gpucluster_train.assignment import Shard
from gpucluster_train.channels import INDEX, S3, Channel, ChannelError, in_print, read, without_suffix
from gpucluster_train.prepare import in_words
from gpucluster_train.sources import Source, source_of
from gpucluster_train.world import World

AT_A_TIME = 8
"""Number of files copied at once: one stream from S3 does not fill a network card."""
CACHE = "scratch-cache"
NODE_PROGRAMS = "/opt/gpucluster/bin"
NO_ROOM = 3
"""The cache's exit code for no room."""
OTHERS = "use an instance type with more NVMe storage, shard: by-node, or mode mount or stream"
BLOCK_BYTES = 4096
"""The block size of a file system."""


def own_part(channel: Channel) -> Sequence[Shard]:
    return channel.node_parts(0)[channel.nodes.index(channel.node)] if channel.shard == "by-node" else channel.every


def key_of(channel: Channel, shards: Sequence[Shard], versions: Mapping[str, str]) -> str:
    """Equal for equal content: from the shards' digests, or from the versions that S3 or the file system report.

    A modification time identifies content only within a folder, so the folder counts too.
    """
    folder = "" if channel.root.startswith(S3) else f"\0{channel.root}"
    lines = [f"{channel.unpack}\n"]
    for shard in sorted(shards, key=lambda shard: shard.name):
        version = shard.digest or versions.get(shard.name, "") + folder
        lines.append(f"{shard.name}\0{shard.size_bytes}\0{version}\n")
        lines += [f"{name}\0{versions.get(name, '')}{folder}\n" for name in shard.beside]
    return sha256("".join(lines).encode()).hexdigest()


def room_for(channel: Channel, shards: Sequence[Shard]) -> int:
    """The required bytes. While a tar file is unpacked, the file and its content both exist."""
    sizes = [shard.size_bytes for shard in shards]
    if channel.unpack != "tar":
        return sum(sizes)
    return sum(map(_unpacked, shards)) + sum(heapq.nlargest(AT_A_TIME, sizes))


def _unpacked(shard: Shard) -> int:
    """An estimate: small files use whole blocks of the disk."""
    if shard.name.endswith((".gz", ".tgz")):
        return 4 * shard.size_bytes
    return 2 * shard.size_bytes if shard.samples is None else shard.size_bytes + BLOCK_BYTES * shard.samples


def fetch(channel: Channel, versions: Mapping[str, str]) -> str:
    """The path of the copy. Raises ChannelError."""
    shards = own_part(channel)
    key, cache = key_of(channel, shards, versions), _cache()
    found = subprocess.run([cache, "get", key], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        _say(f"{channel.name}: {channel.node} already has it: {found.stdout.strip()}")
        return found.stdout.strip()
    runtime = f"{os.environ['GPUCLUSTER_JOB_DIR']}/lib/gpucluster_job"
    # the command runs in the folder that it fills
    command = ["sh", "-c", 'exec /usr/bin/python3 -IS "$0" library fetch "$1" "$PWD"', runtime, channel.name]
    filled = subprocess.run(
        [cache, "fill", key, str(room_for(channel, shards)), "--", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    if filled.returncode:
        raise ChannelError(_said(filled.stderr, filled.returncode))
    size = in_words(sum(shard.size_bytes for shard in shards))
    _say(f"{channel.name}: {channel.node} copied {len(shards)} shards, {size}, to {filled.stdout.strip()}")
    return filled.stdout.strip()


def _say(line: str) -> None:
    """In one write: all nodes do this at the same time, and without a buffer print() writes a line's end separately."""
    print(f"[channels] {line}\n", end="")


def _cache() -> str:
    found = shutil.which(CACHE, path=f"{NODE_PROGRAMS}:{os.environ.get('PATH', '')}")
    if not found:
        raise ChannelError(f"this node cannot keep copies: it has no {CACHE}")
    return found


def _said(said: str, code: int) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else f"{CACHE} exited with {code}"
    for prefix in ("error: ", f"{CACHE}: "):
        last = last[len(prefix) :] if last.startswith(prefix) else last
    return f"{last}: {OTHERS}" if code == NO_ROOM else last


def fill(channel: Channel, folder: Path) -> None:
    """Raises ChannelError, or OSError of the disk."""
    try:
        _fill(channel, folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ChannelError(f"{folder}: the disk is full: {_needed(channel)}: {OTHERS}") from None


def _needed(channel: Channel) -> str:
    shards = own_part(channel)
    size, room = in_words(sum(shard.size_bytes for shard in shards)), in_words(room_for(channel, shards))
    kind = "shards to unpack" if channel.unpack == "tar" else "shards"
    return f"{channel.root} has {size} of {kind}, for which {room} were kept free"


def _fill(channel: Channel, folder: Path) -> None:
    source = source_of(channel.root)
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        running = [threads.submit(_one, source, shard, folder, channel.unpack) for shard in own_part(channel)]
        try:
            for each in running:
                each.result()
        except BaseException:
            for each in running:
                each.cancel()
            raise


def _one(source: Source, shard: Shard, folder: Path, unpack: str) -> None:
    for name in (shard.name, *shard.beside):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        source.download(name, folder / name)
    path, what = folder / shard.name, f"{source.root}/{shard.name}"
    _verify(path, shard, what)
    if unpack == "tar":
        packed = path.rename(path.with_name(f".{path.name}"))
        tars.unpack(packed, folder / without_suffix(shard.name), what)
        packed.unlink()


def _verify(path: Path, shard: Shard, what: str) -> None:
    size = path.stat().st_size
    if size != shard.size_bytes:
        raise ChannelError(f"{what}: {size} bytes arrived, expected {shard.size_bytes}: the file changed meanwhile")
    if shard.digest and _digest(path) != shard.digest:
        raise ChannelError(f"{what}: its content differs from its manifest: copy it again, or make the shards again")


def _digest(path: Path) -> str:
    total = sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            total.update(block)
    return total.hexdigest()


def _channel(index: Path, node: str) -> tuple[Channel, dict[str, str]]:
    """The channel at its source."""
    kept = json.loads(index.read_text(encoding="utf-8"))
    return replace(read(index, World(), node), root=kept["root"]), kept["versions"]


def fetch_all(folder: Path, node: str) -> str | None:
    """The error, or None."""
    for index in sorted(folder.glob(f"*/{INDEX}")):
        channel, versions = _channel(index, node)
        if channel.mode != "copy":
            continue
        try:
            place = fetch(channel, versions)
        except ChannelError as error:
            return f"channel {channel.name}: {error}"
        (index.parent / f"on-{node}").write_text(f"{place}\n", encoding="utf-8")
    return None


def main(arguments: Sequence[str]) -> int:
    folder, node = Path(os.environ["GPUCLUSTER_JOB_DIR"], "channels"), os.environ["SLURMD_NODENAME"]
    if arguments:
        name, target = arguments
        try:
            fill(_channel(folder / name / INDEX, node)[0], Path(target))
        except (ChannelError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        return 0
    problem = fetch_all(folder, node)
    if problem:
        (folder / f"failed-{node}").write_text(f"{node}\n{in_print(problem)}\n", encoding="utf-8")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
