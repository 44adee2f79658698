"""For MXNet: the schedule as an optimizer's `lr_scheduler`.

Servers import this module when they are sent the optimizer, while they are still inside `import mxnet`: of MXNet it may
import only what was loaded by then.
"""

from __future__ import annotations

from typing import Any

from mxnet.lr_scheduler import LRScheduler

from gpucluster_train.schedule import Schedule


class Scheduler(LRScheduler):  # type: ignore[misc]
    """Travels with the optimizer to the parameter servers, which have this package on their path as the workers do."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(base_lr=schedule.peak)
        self.schedule = schedule

    def __call__(self, num_update: int) -> float:
        """MXNet counts the update that it is about to make."""
        return self.schedule(max(0, num_update - 1))


def keep_multipliers(trainer: Any) -> None:
    """Of the parameters of a `gluon.Trainer`, their lr_mult and wd_mult; before the first step.

    Left to itself MXNet sends servers an optimizer that has forgotten them: biases would decay.
    """
    parameters = list(enumerate(trainer._params))
    trainer.optimizer.set_lr_mult({number: each.lr_mult for number, each in parameters})
    trainer.optimizer.set_wd_mult({number: each.wd_mult for number, each in parameters})
