"""What both examples train: a small convolutional network on scikit-learn's digits (1797 images of 8x8 pixels)."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

TEST_IMAGES = 360
BATCH = 64
"""The batch of all ranks together: more ranks share the same work, and reach the same accuracy."""
LEARNING_RATE = 0.2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=12)
    return parser.parse_args()


def device(local_rank: int) -> torch.device:
    """Each rank has its own GPU; without GPUs all share the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(512, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


class Digits:
    """Shuffled alike on every rank; each trains on its own shard, and all shards have the same size."""

    def __init__(self, rank: int, world_size: int, to: torch.device) -> None:
        digits = load_digits()
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(1))
        images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1)[order] / 16
        labels = torch.tensor(digits.target)[order]
        self.test = images[:TEST_IMAGES].to(to), labels[:TEST_IMAGES].to(to)
        size = (len(labels) - TEST_IMAGES) // world_size
        shard = slice(TEST_IMAGES + rank * size, TEST_IMAGES + (rank + 1) * size)
        self.images, self.labels = images[shard].to(to), labels[shard].to(to)
        self.batch = max(1, BATCH // world_size)
        self.steps = size // self.batch
        """In one epoch: the same on every rank, or the ranks would wait for each other."""
        self._shuffle = torch.Generator().manual_seed(rank)

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch of this rank's shard."""
        order = torch.randperm(len(self.labels), generator=self._shuffle).to(self.labels.device)
        for batch in order.split(self.batch)[: self.steps]:
            yield self.images[batch], self.labels[batch]


def train(net: nn.Module, optimizer: torch.optim.Optimizer, data: Digits, epochs: int, rank: int) -> None:
    """The learning rate rises over the first epoch and falls to nothing until the last."""
    done = 0
    for epoch in range(epochs):
        started, total = time.perf_counter(), 0.0
        for images, labels in data.batches():
            done += 1
            for group in optimizer.param_groups:
                group["lr"] = LEARNING_RATE * min(1.0, done / data.steps) * (1 - done / (data.steps * epochs + 1))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if rank == 0:
            seconds = time.perf_counter() - started
            print(f"epoch {epoch + 1}/{epochs}: loss {total / data.steps:.4f}, {seconds:.2f} s", flush=True)


@torch.no_grad()
def accuracy(net: nn.Module, data: Digits) -> float:
    """On the test images, which no rank has trained on."""
    images, labels = data.test
    return (net(images).argmax(dim=1) == labels).float().mean().item()


def report(reached: float, rank: int, world_size: int) -> None:
    """The job's last line."""
    if rank == 0:
        print(json.dumps({"accuracy": round(reached, 4), "world_size": world_size}), flush=True)
