"""before.py with Horovod: each rank trains on its part of the images, and gradients are averaged.

horovodrun -np 2 python examples/keras/after.py --state /tmp/keras     # needs gpucluster_train on PYTHONPATH
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import digits
import horovod.tensorflow.keras as hvd
import tensorflow as tf
from tensorflow import keras

from gpucluster_train import RULES, Schedule, batches, log, world
from gpucluster_train.keras import LearningRate


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a CNN of Keras with Horovod.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64, help="images of a step of one rank")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="that is good for one rank")
    parser.add_argument("--rule", choices=list(RULES), default="linear", help="how it grows with the ranks")
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


def own_gpu() -> None:
    """One for each rank, and no more of its memory than needed."""
    if gpus := tf.config.list_physical_devices("GPU"):
        own = gpus[hvd.local_rank() % len(gpus)]
        tf.config.set_visible_devices(own, "GPU")
        tf.config.experimental.set_memory_growth(own, True)


def main() -> None:
    options = arguments()
    hvd.init()
    own_gpu()
    keras.utils.set_random_seed(0)
    pictures, labels = digits.made(5000)
    own = list(world().share(len(labels)))  # equally many on all ranks: none waits for another's step
    # one rank's rate is good for one rank's batch; more ranks make a larger one
    batch = batches(
        options.learning_rate, of=options.batch, world_size=hvd.size(), per_rank=options.batch, rule=options.rule
    )
    steps = batch.steps(len(own) * hvd.size())
    schedule = Schedule.of_epochs(batch.learning_rate, options.epochs, steps, warmup_epochs=1)

    net = digits.network()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(batch.learning_rate, momentum=0.9))
    net.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    file, resumed_from = options.state / "epochs", 0
    if file.exists():
        resumed_from = int(file.read_text())
        net.load_weights(options.state / f"{resumed_from}.weights.h5")
    data = tf.data.Dataset.from_tensor_slices((pictures[own], labels[own]))
    data = data.shuffle(len(own), seed=resumed_from).batch(options.batch, drop_remainder=True).prefetch(2)
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        LearningRate(schedule, steps_done=resumed_from * steps),
    ]
    if hvd.rank() == 0:
        callbacks.append(Saved(options.state))
        if folder := os.environ.get("GPUCLUSTER_TENSORBOARD"):  # `gpucluster tensorboard` opens it
            callbacks.append(keras.callbacks.TensorBoard(folder, update_freq="batch"))
    net.fit(data, initial_epoch=resumed_from, epochs=options.epochs, callbacks=callbacks, verbose=2 * (hvd.rank() == 0))
    if hvd.rank() == 0:
        loss, accuracy = net.evaluate(*digits.made(1000, seed=1), verbose=0)
        log(step=options.epochs, loss=round(loss, 4), accuracy=round(accuracy, 4))
        done = {"loss": round(loss, 4), "accuracy": round(accuracy, 4), "epochs": options.epochs}
        print(json.dumps({**done, "resumed_from": resumed_from, "world_size": hvd.size()}), flush=True)


class Saved(keras.callbacks.Callback):
    """The weights after each epoch, and which epoch: that file is written last, so it never names missing weights."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.model.save_weights(self._folder / f"{epoch + 1}.weights.h5")
        (self._folder / "epochs.new").write_text(str(epoch + 1))
        os.replace(self._folder / "epochs.new", self._folder / "epochs")
        (self._folder / f"{epoch}.weights.h5").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
