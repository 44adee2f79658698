import torch
import torch.distributed as dist

device = torch.device("cuda", dist.get_node_local_rank()) if torch.cuda.is_available() else torch.device("cpu")
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(200, 64, 8, device=device):
    optimizer.zero_grad()
    loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
    loss.backward()  # averages the gradients of all ranks
    optimizer.step()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {loss.item():.6f}")
