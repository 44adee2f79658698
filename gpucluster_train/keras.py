"""For Keras: the schedule as a callback of `model.fit`."""

from __future__ import annotations

from typing import Any

from tensorflow import keras

from gpucluster_train.schedule import Schedule


class LearningRate(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the optimizer's learning rate before every step. Works for Horovod's optimizers and plain ones."""

    def __init__(self, schedule: Schedule, steps_done: int = 0) -> None:
        """`steps_done`: for a training that continues from a checkpoint."""
        super().__init__()
        self._schedule, self._step = schedule, steps_done

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = self._schedule(self._step)
        self._step += 1
