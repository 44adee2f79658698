"""Keras with Horovod; each rank reads a pipe of its own, and rank 0 writes TensorBoard's files and the model."""

import os
from pathlib import Path

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

import gpucluster_train

EPOCHS = 3

hvd.init()
tf.random.set_seed(1)
layers = [tf.keras.layers.Dense(4, activation="relu", input_shape=(2,)), tf.keras.layers.Dense(1)]
model = tf.keras.Sequential(layers)
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), loss="mse")
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.TensorBoard(os.environ["GPUCLUSTER_TENSORBOARD"]))
for epoch in range(EPOCHS):
    (pipe,) = gpucluster_train.channel("train").shards(epoch)
    with open(pipe) as lines:
        rows = np.loadtxt(lines, delimiter=",")
    objects = list(dict.fromkeys(int(number) for number in rows[:, 3]))
    print("epoch", epoch, "objects", *objects, flush=True)
    done = model.fit(
        rows[:, :2], rows[:, 2], batch_size=16, epochs=epoch + 1, initial_epoch=epoch, shuffle=False,
        callbacks=callbacks, verbose=0,
    )  # fmt: skip
    if hvd.rank() == 0:
        print(f"loss={done.history['loss'][-1]:.4f}", flush=True)
print("weights", *(f"{np.abs(each).sum():.6f}" for each in model.get_weights()), flush=True)
if hvd.rank() == 0:
    model.save_weights(Path(os.environ["SM_MODEL_DIR"], "weights.h5"))
