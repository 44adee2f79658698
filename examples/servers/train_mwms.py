"""TensorFlow's MultiWorkerMirroredStrategy: each worker has all variables, gradients are summed between them."""

from __future__ import annotations

import numpy as np
import teacher
import tensorflow as tf


def summed(strategy: tf.distribute.Strategy, rank: int) -> float:
    """1 from the first worker, 2 from the second, …"""
    kind = tf.distribute.ReduceOp.SUM
    add = tf.function(lambda: tf.distribute.get_replica_context().all_reduce(kind, tf.constant(rank + 1.0)))
    return float(strategy.experimental_local_results(strategy.run(add))[0])


def train(strategy: tf.distribute.Strategy, rank: int) -> np.ndarray:
    random = np.random.RandomState(rank)
    questions, answers = map(np.concatenate, zip(*(teacher.batch(random) for _ in range(teacher.STEPS)), strict=True))
    data = tf.data.Dataset.from_tensor_slices((questions, answers)).repeat().batch(teacher.BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    with strategy.scope():
        net = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        net.compile(tf.keras.optimizers.SGD(teacher.LEARNING_RATE), "mse")
    net.fit(data.with_options(options), steps_per_epoch=teacher.STEPS, epochs=1, verbose=0)
    return net.get_weights()[0]


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank, workers = strategy.cluster_resolver.task_id, strategy.cluster_resolver.cluster_spec().num_tasks("worker")
    total = summed(strategy, rank)
    weights = train(strategy, rank)
    teacher.report(rank=rank, workers=workers, sum=total, error=teacher.error(weights))


if __name__ == "__main__":
    main()
