"""Splits lists, because AWS and scontrol limit the items of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """itertools.batched exists since Python 3.12; machine images have older versions."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
