import gc
import os

import torch
import torch.distributed as dist
import torch.distributed.nn  # before init_process_group(): a later import would refer to the process group
from torch.nn.parallel import DistributedDataParallel

cuda = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
dist.init_process_group("nccl" if cuda else "gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(200):
    x = torch.randn(64, 8, device=device)
    loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # DDP averages the gradients of all ranks here
    optimizer.step()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {loss.item():.6f}")
# If a thread of Gloo still waits for Python's lock when Python exits, the process aborts. Gloo's threads end here if
# nothing else refers to the process group.
del model, optimizer, loss
gc.collect()
dist.destroy_process_group()
