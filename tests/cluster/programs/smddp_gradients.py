"""Each rank's gradient is its rank + 1: after a step of SGD the weights tell whether all of them were averaged."""

import gc
import json

import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401  its import makes the backend known
import torch
import torch.distributed as dist
import torch.distributed.nn  # here, because an import after init_process_group() would keep the process group
from torch.nn.parallel import DistributedDataParallel


def train() -> list[float]:
    model = DistributedDataParallel(torch.nn.Linear(5, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with torch.no_grad():
        model.module.weight.zero_()
    for step in (1, 2, 3):
        optimizer.zero_grad()
        model(torch.full((1, 5), float((dist.get_rank() + 1) * step))).sum().backward()
        optimizer.step()
    return model.module.weight.flatten().tolist()


dist.init_process_group("smddp")
weights = train()
print(json.dumps({"weights": weights, "size": dist.get_world_size(), "backend": dist.get_backend()}), flush=True)
gc.collect()  # Gloo's threads end with the process group if nothing else refers to it
dist.destroy_process_group()
