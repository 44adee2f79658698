"""Continues when ranks are lost, and ends five steps after only LEFT of them are left.

Every rank's gradient is 1: a step of SGD takes 1 off the weights, however many there are.
"""

import json
import os
import time

import horovod.torch as hvd
import torch

LEFT = int(os.environ["LEFT"])

hvd.init()
model = torch.nn.Linear(5, 1, bias=False)
with torch.no_grad():
    model.weight.zero_()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


@hvd.elastic.run
def train(state):
    while state.steps_since < 5:
        total = hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
        optimizer.zero_grad()
        model(torch.ones(1, 5)).sum().backward()
        optimizer.step()
        state.step += 1
        state.steps_since += hvd.size() == LEFT
        if hvd.rank() == 0:
            told = {"step": state.step, "size": hvd.size(), "total": total, "weights": model.weight.flatten().tolist()}
            print(json.dumps(told), flush=True)
        time.sleep(0.2)
        state.commit()


train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, steps_since=0))
