"""What training on several nodes adds to a training program: who am I, which data is mine, which learning rate, when.

Every job finds this package on its PYTHONPATH. Importing it needs nothing but Python's standard library; what belongs
to one framework is in `gpucluster_train.torch`, `.keras` and `.mxnet`, which import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucluster_train.scaling import RULES, Batches, batches, scaled
from gpucluster_train.schedule import Schedule
from gpucluster_train.world import World, world

if TYPE_CHECKING:
    from gpucluster_train.channels import Channel

__all__ = ["RULES", "Batches", "Schedule", "World", "batches", "channel", "scaled", "world"]


def channel(name: str) -> Channel:
    """Input data of this job: `channel("train").shards(epoch)`. Raises gpucluster_train.channels.ChannelError."""
    from gpucluster_train.channels import (
        channel as found,
    )  # a program of its own too: not to be imported before it runs

    return found(name)
