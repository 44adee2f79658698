"""TensorFlow's ParameterServerStrategy: the chief hands out steps, workers compute, servers keep the variables."""

from __future__ import annotations

import os

import numpy as np
import teacher
import tensorflow as tf

Resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver


def serve(resolver: Resolver) -> None:
    """Workers and servers wait for orders. They never return: the job ends with its chief."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()


def train(resolver: Resolver) -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([teacher.FEATURES, 1]))
        total = tf.Variable(0.0)

    @tf.function
    def step(number: tf.Tensor) -> tf.Tensor:
        questions = tf.random.normal([teacher.BATCH, teacher.FEATURES])
        with tf.GradientTape() as tape:
            wrong = questions @ weights - questions @ tf.constant(teacher.WEIGHTS)
            loss = tf.reduce_mean(wrong**2)
        weights.assign_sub(teacher.LEARNING_RATE * tape.gradient(loss, weights))
        total.assign_add(number)
        return loss

    for number in range(teacher.STEPS):
        coordinator.schedule(step, args=(tf.constant(float(number + 1)),))
    coordinator.join()
    teacher.report(
        sum=float(total), expected=teacher.STEPS * (teacher.STEPS + 1) / 2, error=teacher.error(weights.numpy()),
        servers=sorted({each.device.partition("/device")[0] for each in (weights, total)}),
        workers=resolver.cluster_spec().num_tasks("worker"),
    )  # fmt: skip


def main() -> None:
    resolver = Resolver()
    if resolver.task_type == "chief":
        np.random.seed(0)
        train(resolver)
    else:
        print(f"{resolver.task_type} {resolver.task_id} on {os.uname().nodename}", flush=True)
        serve(resolver)


if __name__ == "__main__":
    main()
