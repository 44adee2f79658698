"""Distributes shards, and the samples in them, over ranks. Pure: the same list, seed and number of parts give the same
parts everywhere.

Nothing here depends on the order of the list, on the machine or on Python's release: the order of an epoch is that of
digests of (seed, epoch, name).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any


@dataclass(frozen=True)
class Shard:
    name: str
    """Relative to the channel's source."""
    size_bytes: int = 0
    samples: int | None = None
    """None without a manifest."""
    digest: str | None = None
    """SHA-256 of its bytes. None without a manifest."""
    beside: tuple[str, ...] = ()
    """Files that belong to it, such as a RecordIO file's index."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Shard:
        return cls(**{**fields, "beside": tuple(fields.get("beside", ()))})


def shuffled(shards: Iterable[Shard], seed: str, epoch: int) -> list[Shard]:
    """The epoch's order."""
    return sorted(shards, key=lambda shard: sha256(f"{seed}\0{epoch}\0{shard.name}".encode()).digest())


def parts(shards: Sequence[Shard], count: int, *, seed: str, epoch: int) -> list[list[Shard]]:
    """`count` disjoint parts that together are all shards, each in the epoch's order.

    If every shard's number of samples is known, two parts differ by at most as many samples as the largest shard has;
    otherwise by at most one shard. With at least `count` shards no part is empty.
    """
    if count < 1:
        raise ValueError(f"shards need at least one reader, got {count}")
    order = shuffled(shards, seed, epoch)
    if any(shard.samples is None for shard in order):
        return [order[number::count] for number in range(count)]
    return _balanced(order, count)


def _balanced(order: Sequence[Shard], count: int) -> list[list[Shard]]:
    """Gives each shard, largest first, to the part with the fewest samples, or of those the fewest shards."""
    places: list[list[int]] = [[] for _ in range(count)]
    emptiest = [(0, 0, number) for number in range(count)]
    for place in sorted(range(len(order)), key=lambda place: -(order[place].samples or 0)):
        samples, held, number = heapq.heappop(emptiest)
        places[number].append(place)
        heapq.heappush(emptiest, (samples + (order[place].samples or 0), held + 1, number))
    return [[order[place] for place in sorted(own)] for own in places]


def samples_of(shards: Iterable[Shard]) -> int | None:
    """None if the number of a shard's samples is unknown."""
    total = 0
    for shard in shards:
        if shard.samples is None:
            return None
        total += shard.samples
    return total


@dataclass(frozen=True)
class Piece:
    """A shard's samples from number `first` up to `stop`, every `step`-th; or to its end."""

    shard: Shard
    first: int = 0
    stop: int | None = None
    step: int = 1

    @property
    def end(self) -> int | None:
        """None if the number of the shard's samples is unknown."""
        return self.shard.samples if self.stop is None else self.stop


def cut(pieces: Sequence[Piece], number: int, count: int) -> list[Piece]:
    """The part `number` of `count` disjoint parts that together are all samples.

    If the shards' numbers of samples are known, parts differ by at most one sample. Otherwise they are whole shards; or
    every `count`-th sample, if there are fewer shards than parts.
    """
    if (total := count_of(pieces)) is not None:
        return between(pieces, total * number // count, total * (number + 1) // count)
    if len(pieces) >= count:
        return list(pieces[number::count])
    return [replace(each, first=each.first + number * each.step, step=each.step * count) for each in pieces]


def count_of(pieces: Iterable[Piece]) -> int | None:
    """Samples in them; None if a shard's number is unknown."""
    total = 0
    for piece in pieces:
        if (end := piece.end) is None:
            return None
        total += len(range(piece.first, end, piece.step))
    return total


def between(pieces: Iterable[Piece], begin: int, end: int) -> list[Piece]:
    """Samples number `begin` up to `end` of pieces in a row. Their shards' numbers of samples are known."""
    found: list[Piece] = []
    before = 0
    for piece in pieces:
        held = range(piece.first, piece.end or 0, piece.step)
        own = held[max(0, begin - before) : max(0, end - before)]
        if own:
            found.append(replace(piece, first=own.start, stop=own.stop))
        before += len(held)
    return found
