"""For MXNet: the schedule as an optimizer's `lr_scheduler`."""

from __future__ import annotations

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
