"""Takes steps of gradient 1 and compares where they have led with the sum of the schedule's rates."""

import tensorflow as tf

from gpucluster_train import Schedule
from gpucluster_train.keras import LearningRate


class Slope(tf.keras.layers.Layer):
    """Its weight's gradient is 1, whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.add_weight(name="weight", shape=(), initializer="zeros")

    def call(self, given: tf.Tensor) -> tf.Tensor:
        return given * 0 + self.weight


schedule = Schedule(peak=0.4, steps=20, warmup_steps=5, start=0.1, end=0.01)
given = tf.zeros((5, 1))


def weight_after(epochs: int, steps_done: int) -> float:
    model = tf.keras.Sequential([Slope()])
    model.compile(tf.keras.optimizers.SGD(0.4), loss=lambda _, guess: tf.reduce_mean(guess))
    model.fit(given, given, batch_size=1, epochs=epochs, verbose=0, callbacks=[LearningRate(schedule, steps_done)])
    return float(model.layers[0].weight)


for epochs, done in ((4, 0), (2, 10)):
    got, expected = weight_after(epochs, done), -sum(schedule(step) for step in range(done, done + 5 * epochs))
    assert abs(got - expected) < 1e-5, (got, expected)
print("keras followed the schedule")
