"""What training on several nodes adds to a training program: who am I, which learning rate, when.

Every job finds this package on its PYTHONPATH. Importing it needs nothing but Python's standard library; what belongs
to one framework is in `gpucluster_train.torch`, `.keras` and `.mxnet`, which import it.
"""

from __future__ import annotations

from gpucluster_train.scaling import RULES, Batches, batches, scaled
from gpucluster_train.schedule import Schedule
from gpucluster_train.world import World, world

__all__ = ["RULES", "Batches", "Schedule", "World", "batches", "scaled", "world"]
