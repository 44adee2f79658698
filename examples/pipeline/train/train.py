"""Fits a line to the shards of this rank, with DDP, and writes the model to the job's output."""

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gpucluster_train


def fit(epochs: int, device: torch.device) -> torch.nn.Module:
    model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    shards = gpucluster_train.channel("data").shards(0)
    pairs = torch.tensor([pair for shard in shards for pair in json.loads(Path(shard).read_text())], device=device)
    for _ in range(epochs):
        loss = (model(pairs[:, :1]) - pairs[:, 1:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {dist.get_rank()}: {len(pairs)} pairs, loss {loss.item():.6f}")
    return model.module


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    epochs = parser.parse_args().epochs
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    model = fit(epochs, torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu"))
    if dist.get_rank() == 0:
        output = Path(os.environ["GPUCLUSTER_OUTPUT_MODEL"])
        torch.save(model.state_dict(), output / "line.pt.tmp")
        (output / "line.pt.tmp").replace(output / "line.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
