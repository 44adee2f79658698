"""Handwritten digits with PyTorch's DistributedDataParallel, under torchrun."""

from __future__ import annotations

import os

import digits
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def run(epochs: int) -> float:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = digits.device(int(os.environ["LOCAL_RANK"]))
    data = digits.Digits(rank, world_size, device)
    net = DistributedDataParallel(digits.model().to(device), device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(net.parameters(), lr=digits.LEARNING_RATE, momentum=0.9)
    digits.train(net, optimizer, data, epochs, rank)
    return digits.accuracy(net, data)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world_size} on {os.uname().nodename}", flush=True)
    reached = run(digits.arguments().epochs)
    digits.report(reached, rank, world_size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
