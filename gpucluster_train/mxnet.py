"""For MXNet: the schedule as an optimizer's `lr_scheduler`.

Servers import this module when they receive the optimizer, while they are still inside `import mxnet`: it may import
only the parts of MXNet that are loaded by then.
"""

from __future__ import annotations

from typing import Any

from mxnet.lr_scheduler import LRScheduler

from gpucluster_train.schedule import Schedule


class Scheduler(LRScheduler):  # type: ignore[misc]
    """Sent with the optimizer to the parameter servers, which have this package on their path, like the workers."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(base_lr=schedule.peak)
        self.schedule = schedule

    def __call__(self, num_update: int) -> float:
        """MXNet's count includes the update that follows."""
        return self.schedule(max(0, num_update - 1))


def keep_multipliers(trainer: Any) -> None:
    """Keeps lr_mult and wd_mult of the parameters of a `gluon.Trainer`. Call it before the first step.

    Otherwise MXNet sends servers an optimizer without them, and biases would decay.
    """
    parameters = list(enumerate(trainer._params))
    trainer.optimizer.set_lr_mult({number: each.lr_mult for number, each in parameters})
    trainer.optimizer.set_wd_mult({number: each.wd_mult for number, each in parameters})
