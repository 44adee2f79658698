"""Each rank's gradient is its rank + 1: after a step of SGD the weights tell whether all of them were averaged."""

import json

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
weights = tf.Variable(tf.fill([5], float(hvd.rank())))
hvd.broadcast_variables([weights], root_rank=0)
for step in (1, 2, 3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights) * float((hvd.rank() + 1) * step)
    (gradient,) = hvd.DistributedGradientTape(tape).gradient(loss, [weights])
    weights.assign_sub(gradient)
print(json.dumps({"weights": weights.numpy().tolist(), "size": hvd.size(), "mpi": hvd.mpi_enabled()}), flush=True)
