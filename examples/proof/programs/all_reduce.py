"""Sums a vector over all ranks, checks the sum, and measures how fast it is. NCCL on GPUs, Gloo without."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

MIB = 2**20
REPEATS = 20


def main() -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    numbers = torch.full(((256 if cuda else 8) * MIB // 4,), float(rank + 1), device=device)
    dist.all_reduce(numbers)
    expected = size * (size + 1) / 2
    if not bool((numbers == expected).all()):
        raise SystemExit(f"rank {rank}: the sum is {numbers[0].item()}, not {expected}")
    speed = bandwidth(numbers, size)
    if rank == 0:
        print(f"sum over {size} ranks is right, on {device.type}", flush=True)
        print(f"bus bandwidth {speed:.3f} GB/s", flush=True)
    dist.destroy_process_group()


def bandwidth(numbers: torch.Tensor, size: int) -> float:
    """Bus bandwidth as nccl-tests defines it, in GB (10^9 bytes) per second."""
    began = time.perf_counter()
    for _ in range(REPEATS):
        dist.all_reduce(numbers)
    if numbers.is_cuda:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / REPEATS
    return numbers.numel() * 4 * 2 * (size - 1) / size / seconds / 1e9


if __name__ == "__main__":
    main()
