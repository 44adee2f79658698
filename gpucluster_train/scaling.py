"""How the learning rate follows the batch when more ranks share the work.

Twice the ranks with the same batch on each means half the steps, each along a gradient with less noise. Which rule fits
is found by trying: `linear` up to some thousands of images with SGD, weaker ones beyond that and for Adam and its kin.
Or the global batch is kept: then the learning rate stays, and each rank has less to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

RULES: Mapping[str, float] = MappingProxyType({"linear": 1.0, "two-thirds": 2 / 3, "square-root": 0.5, "constant": 0.0})
"""Name -> power of the ratio of the batches."""


@dataclass(frozen=True)
class Batches:
    per_rank: int
    """Samples in one step of one rank."""
    world: int
    """Samples in one step of all ranks."""
    learning_rate: float
    """The highest: where warm-up ends and decay begins."""

    def steps(self, samples: int) -> int:
        """In one epoch, the same on every rank. Raises ValueError where there is less than one step's worth."""
        if samples < self.world:
            raise ValueError(
                f"one step of all ranks takes {self.world} samples, got {samples}: use fewer ranks or a smaller batch"
            )
        return samples // self.world


def scaled(learning_rate: float, batch: int, *, of: int, rule: str = "linear") -> float:
    """The learning rate for the global batch `batch`, where `learning_rate` is known to be good for the batch `of`."""
    if rule not in RULES:
        raise ValueError(f"no scaling rule {rule!r}; there are {', '.join(RULES)}")
    if batch < 1 or of < 1:
        raise ValueError(f"a batch has at least one sample, got {batch} and {of}")
    return learning_rate * float((batch / of) ** RULES[rule])


def batches(
    learning_rate: float,
    *,
    of: int,
    world_size: int,
    per_rank: int | None = None,
    in_all: int | None = None,
    rule: str = "linear",
) -> Batches:
    """With `per_rank` the global batch grows with the ranks; with `in_all` it stays and each rank's share shrinks.

    `learning_rate` is good for a global batch of `of` samples. Raises ValueError where `in_all` cannot be shared out
    evenly: ranks with different batches would weigh their samples differently.
    """
    if (per_rank is None) == (in_all is None):
        raise ValueError("say either per_rank or in_all: one of the two batches follows from the other")
    if in_all is None:
        in_all = (per_rank or 0) * world_size
    elif in_all % world_size:
        near = max(1, round(in_all / world_size)) * world_size
        raise ValueError(f"a batch of {in_all} cannot be shared by {world_size} ranks evenly; {near} can")
    return Batches(in_all // world_size, in_all, scaled(learning_rate, in_all, of=of, rule=rule))
