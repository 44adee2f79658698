"""All rows, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.following.known.cause import Cause
from gpucluster.following.known.dead import DEAD
from gpucluster.following.known.hung import HUNG
from gpucluster.following.known.slow import SLOW
from gpucluster.following.known.training import TRAINING
from gpucluster.following.known.waiting import NODE, PENDING, REFUSED

CAUSES: tuple[Cause, ...] = (*PENDING, *REFUSED, *NODE, *HUNG, *DEAD, *SLOW, *TRAINING)
BY_ID = {cause.id: cause for cause in CAUSES}


def named(*ids: str) -> Iterator[Cause]:
    return (BY_ID[each] for each in ids)
