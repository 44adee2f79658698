"""Handwritten digits with torch: one element of the tour's sweep."""

from __future__ import annotations

import argparse
import time

import torch
from sklearn.datasets import load_digits

from gpucluster_train import log

STEPS = 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--width", type=int, required=True)
    chosen = parser.parse_args()
    torch.manual_seed(1)
    digits = load_digits()
    pictures = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    model = torch.nn.Sequential(torch.nn.Linear(64, chosen.width), torch.nn.ReLU(), torch.nn.Linear(chosen.width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=chosen.lr, momentum=0.9)
    for step in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(pictures[:1500]), labels[:1500])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = (model(pictures[1500:]).argmax(1) == labels[1500:]).float().mean()
        log(step=step, loss=loss.item(), accuracy=float(right))
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            torch.rand(300, 300) @ torch.rand(300, 300)  # the work of a larger model
    print(f"accuracy {float(right):.4f}", flush=True)


if __name__ == "__main__":
    main()
