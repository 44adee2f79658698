"""Shards as streams: a file is opened, an S3 object is read through a pipe.

`samples` reads tar shards that way, in any framework; `gpucluster_train.torch_samples` is for torch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from typing import IO, Callable, ContextManager, TypeVar

from gpucluster_train import tars
from gpucluster_train.assignment import Piece, cut, samples_of
from gpucluster_train.channels import S3, Channel, ChannelError

Item = TypeVar("Item")
SHARE_OF_MEMORY = 0.5
"""What samples to draw from may take of a node's memory. The rest is for pictures, ranks and the page cache."""
Opening = Callable[[str], ContextManager[IO[bytes]]]
"""Opens a shard to be read once, from start to end."""


@contextmanager
def opened(place: str) -> Iterator[IO[bytes]]:
    """Opens a shard to be read once, from start to end. Raises ChannelError if it is missing or incomplete."""
    if place.startswith(S3):
        with _piped(place) as stream:
            yield stream
        return
    try:
        file = Path(place).open("rb")  # noqa: SIM115 - closed below, apart from the error of opening it
    except OSError as error:
        raise ChannelError(f"{place}: cannot be read: {error.strerror}") from None
    with file:
        yield file


@contextmanager
def _piped(uri: str) -> Iterator[IO[bytes]]:
    """The program's error takes precedence over its reader's error about missing data."""
    argv, environment = _reader(uri)
    cut_off: ChannelError | None = None
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout and process.stderr
        try:
            yield process.stdout
        except ChannelError as error:
            cut_off = error
        except BaseException:
            process.kill()
            raise
        if not (at_end := not process.stdout.read(1)):
            process.kill()  # the reader stopped early
        said = process.stderr.read().decode(errors="replace").strip()
        code = process.wait()
    if at_end and code:
        raise ChannelError(f"{uri}: was not read completely: {said.splitlines()[-1] if said else f'exit code {code}'}")
    if cut_off:
        raise cut_off


def _reader(uri: str) -> tuple[list[str], dict[str, str]]:
    """The AWS CLI, which reads a large object in several streams; else boto3 of the node's own Python."""
    if aws := shutil.which("aws"):
        return [aws, "s3", "cp", "--only-show-errors", uri, "-"], dict(os.environ)
    system = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else "python3"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    return [system, "-s", "-m", "gpucluster_train.sources", uri], environment


def samples(
    channel: Channel,
    epoch: int = 0,
    *,
    rank: int | None = None,
    size: int | None = None,
    shuffle: int = 0,
    seed: int = 0,
    exact: bool = True,
    worker: int = 0,
    workers: int = 1,
    opening: Callable[[list[str]], Opening] | None = None,
) -> Iterator[tars.Sample]:
    """This rank's samples of a channel of tar shards, in the epoch's order of shards.

    `shuffle`: how many samples to keep in memory and draw from. `exact=False`: equally many on all ranks, as
    `Channel.samples_each` has them. A process that reads with others for the same rank is `worker` of `workers`.
    `opening`: from all places in reading order, what opens each.

    Raises ChannelError.
    """
    _check_room(channel, shuffle, workers)
    pieces = cut(channel.pieces(epoch, rank=rank, size=size, exact=exact), worker, workers)
    places = [channel.place_of(piece.shard) for piece in pieces]
    number = channel.world.rank if rank is None else rank
    chance = Random(f"{channel.seed} {seed} {epoch} {number} {worker}")
    return shuffled(_of_pieces(pieces, places, opening(places) if opening else opened), shuffle, chance)


def _check_room(channel: Channel, shuffle: int, workers: int) -> None:
    """Raises ChannelError if what all readers of this node keep to draw from would take most of its memory."""
    samples, ranks = samples_of(channel.every), channel.ranks_per_node
    if not samples:
        return
    held = min(shuffle * ranks * workers, samples * (ranks if channel.shard == "none" else 1))
    needed = held * sum(shard.size_bytes for shard in channel.every) / samples
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > SHARE_OF_MEMORY * memory:
        raise ChannelError(
            f"channel {channel.name}: {ranks} ranks x {workers} workers of this node would keep {shuffle} samples each "
            f"to draw from, {needed / 1e9:.1f} GB, and it has {memory / 1e9:.1f} GB of memory: use fewer workers, or a "
            "smaller shuffle="
        )


def shuffled(items: Iterable[Item], size: int, chance: Random) -> Iterator[Item]:
    """In an order drawn from `size` items at a time; from at most one, the same order. It begins when an eighth of them
    is there, and then reads two for each that it gives, so that an epoch does not begin with a wait for all."""
    source = iter(items)
    held: list[Item] = []
    for item in source:
        held.append(item)
        if len(held) < size:
            held.extend(islice(source, 1))
        if len(held) > size // 8:
            yield _drawn(held, chance)
    while held:
        yield _drawn(held, chance)


def _drawn(held: list[Item], chance: Random) -> Item:
    number = int(chance.random() * len(held))
    held[number], held[-1] = held[-1], held[number]
    return held.pop()


def _of_pieces(pieces: list[Piece], places: list[str], opening: Opening) -> Iterator[tars.Sample]:
    for piece, place in zip(pieces, places):
        with opening(place) as stream:
            yield from _of_piece(piece, tars.samples(stream, place, piece.first), place)


def _of_piece(piece: Piece, found: Iterator[tars.Sample], place: str) -> Iterator[tars.Sample]:
    """Reads up to the end of the shard if the piece goes that far, so that a shard with other samples is noticed."""
    listed, count = piece.shard.samples, piece.first
    for count, sample in enumerate(found, piece.first + 1):
        if piece.stop is None or count <= piece.stop:
            if (count - 1 - piece.first) % piece.step == 0:
                yield sample
            if count == piece.stop != listed:
                return
    if listed is not None and count != listed:
        than = f"{'more' if count > listed else 'fewer'} samples than the {listed} of its manifest.json"
        raise ChannelError(f"{place}: has {than}: copy the data set again, or pack it again with gpucluster data shard")


def of_places(places: Iterable[str], parse: Callable[[IO[bytes], str], Iterable[Item]]) -> Iterator[Item]:
    for place in places:
        with opened(place) as stream:
            yield from parse(stream, place)
