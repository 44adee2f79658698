"""Sums a tensor over all ranks with Horovod, on GPUs where there are some, and checks the sum."""

from __future__ import annotations

import horovod.torch as hvd
import torch


def main() -> None:
    hvd.init()
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(hvd.local_rank())
    device = torch.device("cuda" if cuda else "cpu")
    total = hvd.allreduce(torch.full((1024,), float(hvd.rank() + 1), device=device), op=hvd.Sum)
    expected = hvd.size() * (hvd.size() + 1) / 2
    if not bool((total == expected).all()):
        raise SystemExit(f"rank {hvd.rank()}: the sum is {total[0].item()}, not {expected}")
    if hvd.rank() == 0:
        print(f"sum over {hvd.size()} ranks is right, on {device.type}; NCCL built: {hvd.nccl_built()}", flush=True)


if __name__ == "__main__":
    main()
