"""A job's input data for its ranks: the shards of this rank in this epoch.

`python -m gpucluster_train.channels NAME [--epoch N]` prints them, for programs that are not Python.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucluster_train.assignment import Piece, Shard, between, cut, parts, samples_of, shuffled
from gpucluster_train.world import World, world

PIPE = "pipe"
"""The mode of a channel on SageMaker that is a pipe for each epoch, with all of its objects one after another."""
PIPE_APPEARS_S = 300.0
INDEX = "index.json"
"""In channels/NAME/ of the job's folder: the channel's files as found before the ranks started."""


S3 = "s3://"


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Splits `s3://bucket/key`; the key is empty for the whole bucket."""
    bucket, _, key = (uri[len(S3) :] if uri.startswith(S3) else uri).partition("/")
    return bucket, key


_UNLISTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def name_flaw(name: str) -> str:
    """Why the ranks' lists, which have one path in UTF-8 on each line, cannot have it; empty if they can. The same rule
    as in gpucluster/job/channels.py."""
    if not (found := _UNLISTABLE.search(name)):
        return ""
    what = "is not UTF-8" if found[0] >= "\ud800" else "has a line break or another control character"
    return f"{in_print(name)}: this name {what}: rename it"


def in_print(name: str) -> str:
    """`caf\\xe9.tar` for a byte that is not UTF-8, `a\\nb.tar` for a line break."""

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else repr(found[0])[1:-1]

    return _UNLISTABLE.sub(escaped, name)


class ChannelError(RuntimeError):
    """A channel cannot be read as requested. The text has its name, the reason, and what to do."""


@dataclass(frozen=True)
class Channel:
    name: str
    root: str
    """Folder, or s3 URI, that the shards' names are relative to."""
    shard: str
    """by-rank, by-node or none."""
    mode: str
    unpack: str
    seed: str
    nodes: tuple[str, ...]
    """The job's nodes, in the order of its list."""
    every: tuple[Shard, ...]
    world: World = field(default_factory=World)
    node: str = ""
    """The node of this process."""
    classes: tuple[str, ...] = ()
    """The names of the labels 0, 1, …; empty if the source's manifest has none."""

    def shards(self, epoch: int = 0, *, rank: int | None = None, size: int | None = None) -> list[str]:
        """Paths, or s3 URIs, of this rank's shards in this epoch, in reading order.

        `rank` and `size` stand for another rank, or for another size of an elastic job: Horovod's after a reset.
        Raises ChannelError if the rank's node is not a node of the job.
        """
        return [self.place_of(shard) for shard in self.part(epoch, rank=rank, size=size)]

    def part(self, epoch: int, *, rank: int | None = None, size: int | None = None) -> list[Shard]:
        if epoch < 0:
            raise ValueError(f"epochs count from 0, got {epoch}")
        if self.mode == PIPE:
            return [Shard(f"{shard.name}_{epoch}") for shard in self.every]
        if self.shard == "none":
            return shuffled(self.every, self.seed, epoch)
        if self.shard == "by-node":
            return self._of_node(epoch)
        rank, size = self.world.rank if rank is None else rank, self.world.size if size is None else size
        if not 0 <= rank < size:
            raise ValueError(f"ranks of a world of {size} are 0 to {size - 1}, got {rank}")
        return parts(self.every, size, seed=self.seed, epoch=epoch)[rank]

    def pieces(
        self, epoch: int = 0, *, rank: int | None = None, size: int | None = None, exact: bool = False
    ) -> list[Piece]:
        """This rank's samples in this epoch, in reading order: those of its shards, or with by-node its part of the
        node's. Equally many on all ranks if the shards' numbers of samples are known; `exact`: without leaving out any.
        """
        pieces = [Piece(shard) for shard in self.part(epoch, rank=rank, size=size)]
        if self.shard == "by-node":
            local, count = self.world.local_rank, self.ranks_per_node
            if local >= count:
                raise ChannelError(
                    f"channel {self.name}: this is rank {local} of its node, but a node has {count} "
                    f"rank{'s' * (count > 1)}, counted over the job's {len(self.nodes)} nodes: choose shard: by-rank"
                )
            pieces = cut(pieces, local, count)
        each = None if exact else self.samples_each(epoch, size=size)
        return pieces if each is None else between(pieces, 0, each)

    @property
    def ranks_per_node(self) -> int:
        return max(1, self.world.size // max(1, len(self.nodes)))

    def samples_each(self, epoch: int = 0, *, size: int | None = None) -> int | None:
        """The minimum number of samples of a rank. If all ranks stop there, none waits for another. None if unknown.

        With by-node the ranks of a node share its samples.
        """
        if self.shard == "none":
            return samples_of(self.every)
        if self.shard == "by-node":
            shared = self.node_parts(epoch), self.ranks_per_node
        else:
            shared = parts(self.every, size or self.world.size, seed=self.seed, epoch=epoch), 1
        counts = [samples_of(part) for part in shared[0]]
        return None if None in counts else min(count or 0 for count in counts) // shared[1]

    def node_parts(self, epoch: int) -> list[list[Shard]]:
        """A node that copies its part keeps it: only the order changes between epochs."""
        if self.mode != "copy":
            return parts(self.every, len(self.nodes), seed=self.seed, epoch=epoch)
        kept = parts(self.every, len(self.nodes), seed=self.seed, epoch=0)
        return [shuffled(part, self.seed, epoch) for part in kept]

    def place_of(self, shard: Shard) -> str:
        """An unpacked shard is a folder with its content. Waits for a pipe."""
        if self.mode == PIPE:
            return pipe(self.name, f"{self.root}/{shard.name}")
        name = without_suffix(shard.name) if self.unpack == "tar" else shard.name
        return f"{self.root.rstrip('/')}/{name}"

    def _of_node(self, epoch: int) -> list[Shard]:
        if self.node not in self.nodes:
            known = ", ".join(self.nodes)
            raise ChannelError(f"channel {self.name}: {self.node or 'this machine'} is not a node of the job ({known})")
        return self.node_parts(epoch)[self.nodes.index(self.node)]


def pipe(channel: str, path: str, longest_s: float = PIPE_APPEARS_S) -> str:
    """Returns when the pipe exists: SageMaker makes that of an epoch when the one before has been read to its end."""
    until = time.monotonic() + longest_s
    while not os.path.exists(path):
        if time.monotonic() >= until:
            raise ChannelError(
                f"channel {channel}: {path} has not appeared in {longest_s:g} s: the pipe of an epoch is made when "
                "that of the epoch before has been read to its end or closed, by one process; epochs count from 0"
            )
        time.sleep(0.05)
    return path


def without_suffix(name: str) -> str:
    """`a/b.tar.gz` unpacks to `a/b`."""
    for suffix in (".tar.gz", ".tgz", ".tar"):
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return f"{name}.unpacked"


def channel(name: str, environment: Mapping[str, str] | None = None) -> Channel:
    """A channel of this job for this rank, from the environment (default: this process's). Raises ChannelError."""
    variables = os.environ if environment is None else environment
    folder = _folder(variables)
    index = folder / name / INDEX
    if not index.is_file():
        known = ", ".join(names(variables)) or "none"
        raise ChannelError(f"the job has no channel {name!r}; its channels: {known}")
    return read(index, world(variables), variables.get("GPUCLUSTER_NODE", ""))


def names(environment: Mapping[str, str] | None = None) -> list[str]:
    folder = _folder(os.environ if environment is None else environment)
    return sorted(path.parent.name for path in folder.glob(f"*/{INDEX}"))


def _folder(variables: Mapping[str, str]) -> Path:
    if "GPUCLUSTER_JOB_DIR" not in variables:
        raise ChannelError("channels exist only in a job: GPUCLUSTER_JOB_DIR is not set")
    return Path(variables["GPUCLUSTER_JOB_DIR"], "channels")


def read(index: Path, world: World, node: str) -> Channel:
    """`world` and `node`: those of the reading rank."""
    found: dict[str, Any] = json.loads(index.read_text(encoding="utf-8"))
    root = copied_to(index.parent, node) if found["mode"] == "copy" else found["root"]
    return Channel(
        name=index.parent.name,
        root=root,
        **{key: found[key] for key in ("shard", "mode", "unpack", "seed")},
        nodes=tuple(found["nodes"]),
        every=tuple(Shard.of(fields) for fields in found["shards"]),
        world=world,
        node=node,
        classes=tuple(found.get("classes", ())),
    )


def copied_to(folder: Path, node: str) -> str:
    """Nodes may have their scratch at different paths. Empty until the channel was copied there."""
    try:
        return (folder / f"on-{node}").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def write_lists(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """For each channel, its name and a file with the shards of epoch 0. A process without a rank gets all shards."""
    label = environment.get("GPUCLUSTER_LABEL") or environment["RANK"]
    for name in names(environment):
        own = channel(name, environment)
        places = (
            own.shards() if "RANK" in environment else [own.place_of(each) for each in shuffled(own.every, own.seed, 0)]
        )
        path = _folder(environment) / name / f"rank-{label}.txt"
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text("".join(f"{place}\n" for place in places), encoding="utf-8")
        partial.replace(path)
        yield name, path


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("gpucluster_train.channels", description="Prints the shards of this rank.")
    parser.add_argument("name", nargs="?", help="name of the channel (default: list all channels)")
    parser.add_argument("--epoch", type=int, default=0, metavar="N", help="epoch, counted from 0 (default: 0)")
    parser.add_argument("--rank", type=int, metavar="N", help="rank (default: that of this process)")
    parser.add_argument("--size", type=int, metavar="N", help="number of ranks (default: that of the job)")
    parser.add_argument("--write-lists", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.write_lists:
        lines = [f"{name} {path}" for name, path in write_lists(os.environ)]
    elif given.name is None:
        lines = names()
    else:
        lines = channel(given.name).shards(given.epoch, rank=given.rank, size=given.size)
    print("".join(f"{line}\n" for line in lines), end="")


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path is what the list has, whatever the user's locale
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        main(sys.argv[1:])
    except (ChannelError, ValueError) as error:
        sys.exit(f"error: {error}")
