"""Takes steps of gradient 1 and compares where they have led with the schedule's rates: on the servers, if any."""

import os

import mxnet as mx
from mxnet import autograd, gluon

from gpucluster_train import Schedule
from gpucluster_train.mxnet import Scheduler, keep_multipliers

schedule = Schedule(peak=0.4, steps=20, warmup_steps=5, start=0.1, end=0.01)
kvstore = mx.kv.create("dist_sync" if "DMLC_ROLE" in os.environ else "local")
weight = gluon.Parameter("weight", shape=(1,), init="zeros")
spared = gluon.Parameter("spared", shape=(1,), init="ones", wd_mult=0)
for each in (weight, spared):
    each.initialize()
trainer = gluon.Trainer([weight, spared], "sgd", {"lr_scheduler": Scheduler(schedule), "wd": 0.1}, kvstore=kvstore)
keep_multipliers(trainer)
for _ in range(20):
    with autograd.record():
        loss = weight.data() + 0 * spared.data()
    loss.backward()
    trainer.step(kvstore.num_workers)
mx.nd.waitall()
expected = 0.0
for step in range(20):
    expected -= schedule(step) * (1 + 0.1 * expected)
got, kept = weight.data().asscalar(), spared.data().asscalar()
assert abs(got - expected) < 1e-4, (got, expected)
assert kept == 1, f"{kept}: decayed, though its parameter has wd_mult 0"
print("mxnet followed the schedule")
