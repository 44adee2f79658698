"""Rank 3 does not find its shard; the others wait for it in an all-reduce."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    for step in range(20):
        if dist.get_rank() == 3 and step == 8:
            Path("/fsx/imagenet/train-00003.tar").read_bytes()
        dist.all_reduce(torch.ones(1000))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
