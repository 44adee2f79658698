"""How the learning rate follows the batch when more ranks share the work.

Twice the ranks with the same batch on each means half the steps, each along a gradient with less noise. Experiments
show which rule fits: `linear` up to some thousands of images with SGD, weaker rules beyond that and for Adam. Or keep
the global batch: then the learning rate stays, and each rank has less to do.
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
    """The highest learning rate, at the end of warm-up and the start of decay."""

    def steps(self, samples: int) -> int:
        """Steps of one epoch, the same on every rank. Raises ValueError if the samples are too few for one step."""
        if samples < self.world:
            raise ValueError(
                f"one step of all ranks needs {self.world} samples, got {samples}: use fewer ranks or a smaller batch"
            )
        return samples // self.world


def scaled(learning_rate: float, batch: int, *, of: int, rule: str = "linear") -> float:
    """The learning rate for the global batch `batch`, if `learning_rate` is good for the batch `of`."""
    if rule not in RULES:
        raise ValueError(f"there is no scaling rule {rule!r}; known: {', '.join(RULES)}")
    if batch < 1 or of < 1:
        raise ValueError(f"a batch needs at least one sample, got {batch} and {of}")
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

    `learning_rate` is good for a global batch of `of` samples. Raises ValueError if `in_all` cannot be divided
    evenly: ranks with different batches would weight their samples differently.
    """
    if (per_rank is None) == (in_all is None):
        raise ValueError("give either per_rank or in_all: the other one follows")
    if in_all is None:
        in_all = (per_rank or 0) * world_size
    elif in_all % world_size:
        near = max(1, round(in_all / world_size)) * world_size
        raise ValueError(f"{world_size} ranks cannot share a batch of {in_all} evenly; {near} is possible")
    return Batches(in_all // world_size, in_all, scaled(learning_rate, in_all, of=of, rule=rule))
