"""Rank 2 finds fewer batches than the others: it leaves the loop, and they wait for it in an all-reduce."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from gpucluster_train import log


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    steps = 30 if rank == 2 else 31
    for step in range(steps):
        dist.all_reduce(torch.ones(1000))
        log(step=step, loss=2.3 / (1 + step))
        time.sleep(0.3)
    if rank == 2:
        print("rank 2 has read all its batches", flush=True)
        time.sleep(3600)


if __name__ == "__main__":
    main()
