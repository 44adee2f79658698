"""Helpers for training on several nodes: a process's rank, its part of the data, and the learning rate of each step.

Every job finds this package on its PYTHONPATH. Importing it needs only Python's standard library; code for
one framework is in `gpucluster_train.torch`, `.keras` and `.mxnet`, which import that framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucluster_train.log import log
from gpucluster_train.scaling import RULES, Batches, batches, scaled
from gpucluster_train.schedule import Schedule
from gpucluster_train.world import World, world

if TYPE_CHECKING:
    from gpucluster_train.channels import Channel

__all__ = ["RULES", "Batches", "Schedule", "World", "batches", "channel", "log", "scaled", "world"]


def channel(name: str) -> Channel:
    """Input data of this job: `channel("train").shards(epoch)`. Raises gpucluster_train.channels.ChannelError."""
    import os

    from gpucluster_train import sagemaker

    if sagemaker.is_here(os.environ):
        return sagemaker.channel(name)
    from gpucluster_train.channels import (
        channel as found,
    )  # it is also a program, which must not be imported before it runs

    return found(name)
