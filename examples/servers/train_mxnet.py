"""MXNet's parameter servers: gradients go to the servers, which update the weights, and weights come back."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import teacher
from mxnet import autograd, gluon, nd


def summed(store: mx.kvstore.KVStore) -> float:
    """Sums 1 from the first worker, 2 from the second, …: what servers make of it before they have an optimizer."""
    key, total = 1_000_000, nd.zeros((4,))  # a number, as the trainer's keys: a store takes one kind of keys only
    store.init(key, total)
    store.push(key, nd.ones((4,)) * (store.rank + 1))
    store.pull(key, out=total)
    return float(total.asnumpy().sum()) / 4


def train(store: mx.kvstore.KVStore, device: list[mx.Context]) -> np.ndarray:
    """Each GPU of the worker takes its part of the batch."""
    net = gluon.nn.Dense(1, in_units=teacher.FEATURES, use_bias=False)
    net.initialize(mx.init.Zero(), ctx=device)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": teacher.LEARNING_RATE}, kvstore=store)
    loss, random = gluon.loss.L2Loss(), np.random.RandomState(store.rank)
    for _ in range(teacher.STEPS):
        parts = [gluon.utils.split_and_load(nd.array(each), device) for each in teacher.batch(random)]
        with autograd.record():
            losses = [loss(net(questions), answers) for questions, answers in zip(*parts, strict=True)]
        autograd.backward(losses)
        trainer.step(teacher.BATCH * store.num_workers)
    return net.weight.data(device[0]).asnumpy()


def main() -> None:
    gpus = mx.context.num_gpus()
    store = mx.kv.create("dist_sync")
    total = summed(store)
    weights = train(store, [mx.gpu(i) for i in range(gpus)] or [mx.cpu()])
    teacher.report(rank=store.rank, workers=store.num_workers, sum=total, error=teacher.error(weights))


if __name__ == "__main__":
    main()
