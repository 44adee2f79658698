"""A training loop whose loader needs ten times as long for a batch as the model does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from gpucluster_train import log
from gpucluster_train.feed import Feed

STEPS = 40


def batches() -> Iterator[torch.Tensor]:
    """Keeps one CPU busy for each batch, as decoding pictures does."""
    for _ in range(STEPS):
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            torch.randint(0, 255, (224, 224, 3)).float().mean()
        yield torch.rand(64, 256)


def main() -> None:
    model = torch.nn.Linear(256, 256)
    feed = Feed(batches)
    for step, batch in enumerate(feed):
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            loss = model(batch).square().mean()
            loss.backward()
        log(step=step, loss=loss.item())
    print(f"epoch 1/1: loss {loss.item():.4f}, {feed.report()}", flush=True)


if __name__ == "__main__":
    main()
