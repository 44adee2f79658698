"""Curves for TensorBoard; for torch. `gpucluster submit --with tensorboard …` installs the package that writes them."""

from __future__ import annotations

import os


class Curves:
    """Only rank 0 of a job has the folder. Without it, or without the package, nothing is written."""

    def __init__(self, epochs_done: int) -> None:
        """Points of a run that ended during its next epoch are not shown."""
        self._writer = None
        if folder := os.environ.get("GPUCLUSTER_TENSORBOARD"):
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                return
            self._writer = SummaryWriter(folder, purge_step=epochs_done + 1)

    def plot(self, epoch: int, **values: float) -> None:
        if self._writer:
            for name, value in values.items():
                self._writer.add_scalar(name, value, epoch)
            self._writer.flush()
