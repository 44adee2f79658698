"""Copies the channels of mode `copy` to this node's scratch, once before the ranks start.

A copy is kept by what it holds: a later job that asks for the same data finds it there. It appears under its name when
it is whole, and not before.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from gpucluster_train import tars
from gpucluster_train.assignment import Shard
from gpucluster_train.channels import INDEX, Channel, ChannelError, read, without_suffix
from gpucluster_train.prepare import in_words
from gpucluster_train.sources import Source, source_of
from gpucluster_train.world import World

AT_A_TIME = 8
"""Files: one stream of S3's does not fill a network card."""
SCRATCH_NOTED_IN = Path("/etc/gpucluster/scratch")
SCRATCH = "/var/lib/gpucluster/scratch"


def scratch() -> Path:
    """This node's own disk, where the node says it is."""
    try:
        return Path(SCRATCH_NOTED_IN.read_text(encoding="utf-8").strip() or SCRATCH)
    except FileNotFoundError:
        return Path(SCRATCH)


def key_of(channel: Channel, shards: Sequence[Shard], versions: Mapping[str, str]) -> str:
    """The same for the same content: by the shards' digests, or by what S3 or the file system say of their versions."""
    lines = [f"{channel.unpack}\n"]
    for shard in sorted(shards, key=lambda shard: shard.name):
        lines.append(f"{shard.name}\0{shard.size_bytes}\0{shard.digest or versions.get(shard.name, '')}\n")
        lines += [f"{name}\0{versions.get(name, '')}\n" for name in shard.beside]
    return sha256("".join(lines).encode()).hexdigest()


def fetch(channel: Channel, versions: Mapping[str, str], scratch: Path, job: str) -> str:
    """Where the copy is. Raises ChannelError."""
    shards = channel.node_parts(0)[channel.nodes.index(channel.node)] if channel.shard == "by-node" else channel.every
    target = scratch / "cache" / key_of(channel, shards, versions)
    if target.is_dir():
        os.utime(target)
        print(f"[channels] {channel.name}: {channel.node} has a copy already: {target}")
        return str(target)
    size = sum(shard.size_bytes for shard in shards)
    partial = target.with_name(f".{target.name}.{job}.{channel.node}")
    try:
        _check_room(size, scratch)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _fill(partial, channel, shards)
        _appear(partial, target)
    except OSError as error:
        raise ChannelError(_disk_words(error, size, scratch)) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(f"[channels] {channel.name}: {channel.node} copied {len(shards)} shards, {in_words(size)}, to {target}")
    return str(target)


def _check_room(size: int, scratch: Path) -> None:
    scratch.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(scratch).free
    if free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _disk_words(error: OSError, size: int, scratch: Path) -> str:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return f"cannot be copied to {scratch}: {error}"
    free = shutil.disk_usage(scratch).free if scratch.is_dir() else 0
    return (
        f"{in_words(size)} do not fit on {scratch}, which has {in_words(free)} free: take an instance type with more "
        "NVMe storage, shard: by-node, or mode mount or stream"
    )


def _fill(folder: Path, channel: Channel, shards: Sequence[Shard]) -> None:
    source = source_of(channel.root)
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        running = [threads.submit(_one, source, shard, folder, channel.unpack) for shard in shards]
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
        raise ChannelError(f"{what}: {size} bytes arrived, expected {shard.size_bytes}: it changed meanwhile")
    if shard.digest and _digest(path) != shard.digest:
        raise ChannelError(
            f"{what}: its content is not what its manifest says: copy it again, or make the manifest anew"
        )


def _digest(path: Path) -> str:
    total = sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            total.update(block)
    return total.hexdigest()


def _appear(partial: Path, target: Path) -> None:
    """Another job of this node may have been quicker with the same data."""
    try:
        partial.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what it leaves unfinished is removed
    folder, node = Path(os.environ["GPUCLUSTER_JOB_DIR"], "channels"), os.environ["SLURMD_NODENAME"]
    (folder / f"failed-{node}").unlink(missing_ok=True)
    for index in sorted(folder.glob(f"*/{INDEX}")):
        told = json.loads(index.read_text(encoding="utf-8"))
        if told["mode"] != "copy":
            continue
        try:
            channel = replace(read(index, World(), node), root=told["root"])
            place = fetch(channel, told["versions"], scratch(), os.environ.get("SLURM_JOB_ID", "0"))
        except ChannelError as error:
            (folder / f"failed-{node}").write_text(f"{node}\nchannel {index.parent.name}: {error}\n", encoding="utf-8")
            return 1
        (index.parent / f"on-{node}").write_text(f"{place}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
