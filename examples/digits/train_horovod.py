"""Handwritten digits with Horovod, under horovodrun."""

from __future__ import annotations

import os

import digits
import horovod.torch as hvd
import torch


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    rank, world_size = hvd.rank(), hvd.size()
    print(f"rank {rank} of {world_size} on {os.uname().nodename}", flush=True)

    device = digits.device(hvd.local_rank())
    data = digits.Digits(rank, world_size, device)
    net = digits.model().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=digits.LEARNING_RATE, momentum=0.9)
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())

    digits.train(net, optimizer, data, digits.arguments().epochs, rank)
    digits.report(digits.accuracy(net, data), rank, world_size)
    hvd.shutdown()


if __name__ == "__main__":
    main()
