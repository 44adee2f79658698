"""Each rank's gradient is its rank + 1: after a step of SGD the weights tell whether all of them were averaged."""

import json

import horovod.torch as hvd
import torch

hvd.init()
weights = torch.nn.Parameter(torch.full((5,), float(hvd.rank())))
hvd.broadcast_parameters({"weights": weights.data}, root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weights], lr=1.0), named_parameters=[("weights", weights)])
for step in (1, 2, 3):
    optimizer.zero_grad()
    (weights.sum() * (hvd.rank() + 1) * step).backward()
    optimizer.step()
print(json.dumps({"weights": weights.tolist(), "size": hvd.size(), "mpi": hvd.mpi_enabled()}), flush=True)
