"""For torch: the schedule as a torch scheduler, and a program that runs under torchrun, SMDDP and Horovod."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TypeVar

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from gpucluster_train.data_parallel import Ddp, Horovod, Ranks
from gpucluster_train.schedule import Schedule
from gpucluster_train.world import world

Result = TypeVar("Result")


def scheduler(optimizer: Optimizer, schedule: Schedule) -> LambdaLR:
    """Call its step() after each step() of the optimizer. A group with half the peak's rate keeps half of it.

    Raises ValueError if the optimizer's learning rate is not the schedule's peak.
    """
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    if not any(abs(rate - schedule.peak) <= 1e-6 * schedule.peak for rate in rates):
        raise ValueError(f"the optimizer's learning rate is {rates[0]:g}, but the schedule's peak is {schedule.peak:g}")
    return LambdaLR(optimizer, lambda step: schedule(step) / schedule.peak)


def run(train: Callable[[Ranks], Result], *, compress: bool = False) -> Result:
    """Joins the job's ranks, trains, and leaves them in order. The program is the same under every launcher.

    `compress`: gradients travel as fp16, half the bytes: for networks on which their exchange takes longer than the
    backward pass hides.
    """
    me = world()
    if me.launcher == "horovodrun" or (me.launcher == "mpirun" and importlib.util.find_spec("horovod")):
        return Horovod.run(train, compress=compress)
    return Ddp.run(train, me, compress=compress)
