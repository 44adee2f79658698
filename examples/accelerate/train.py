"""Hugging Face Accelerate: a classifier of handwritten digits, with checkpoints from which it resumes.

torchrun --nproc-per-node 2 examples/accelerate/train.py --state /tmp/accelerate      # without a cluster
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

TEST_IMAGES = 360


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train with Accelerate.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64, help="images of a step, of all ranks together")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


def digits() -> tuple[TensorDataset, TensorDataset]:
    """To train on, and to test with."""
    loaded = load_digits()
    order = torch.randperm(len(loaded.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(loaded.images, dtype=torch.float32).unsqueeze(1)[order] / 16
    labels = torch.tensor(loaded.target)[order]
    parts = slice(TEST_IMAGES, None), slice(TEST_IMAGES)
    train, test = (TensorDataset(images[part], labels[part]) for part in parts)
    return train, test


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


class Checkpoints:
    """Folders epoch-N, each complete: it gets its name when all ranks have written."""

    def __init__(self, accelerator: Accelerator, folder: Path) -> None:
        self.accelerator, self.folder = accelerator, folder

    def save(self, epochs: int) -> None:
        partly = self.folder / "partly.tmp"
        self.accelerator.save_state(str(partly))
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            shutil.rmtree(self.folder / f"epoch-{epochs}", ignore_errors=True)
            partly.rename(self.folder / f"epoch-{epochs}")
            shutil.rmtree(self.folder / f"epoch-{epochs - 2}", ignore_errors=True)
        self.accelerator.wait_for_everyone()

    def load(self) -> int:
        """Epochs done before."""
        done = max((int(each.name.removeprefix("epoch-")) for each in self.folder.glob("epoch-*")), default=0)
        if done:
            self.accelerator.load_state(str(self.folder / f"epoch-{done}"))
        return done


def tested(accelerator: Accelerator, model: nn.Module, test: DataLoader[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Over all ranks, without the images that were repeated to give all ranks as many."""
    model.eval()
    with torch.no_grad():
        pairs = [accelerator.gather_for_metrics((model(images), labels)) for images, labels in test]
    outputs, labels = (torch.cat(each) for each in zip(*pairs, strict=True))
    loss, hits = nn.functional.cross_entropy(outputs, labels), (outputs.argmax(dim=1) == labels).float().mean()
    return {"loss": round(loss.item(), 4), "accuracy": round(hits.item(), 4)}


def train(options: argparse.Namespace, accelerator: Accelerator) -> None:
    set_seed(0)
    train_set, test_set = digits()
    model = network()
    model, optimizer, batches, test = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=options.learning_rate),
        DataLoader(train_set, options.batch, shuffle=True, drop_last=True),
        DataLoader(test_set, options.batch),
    )
    checkpoints = Checkpoints(accelerator, options.state)
    resumed_from = checkpoints.load()
    accelerator.print(f"{'resumes after' if resumed_from else 'starts at'} epoch {resumed_from}", flush=True)
    for epoch in range(resumed_from, options.epochs):
        model.train()
        batches.set_epoch(epoch)
        total = torch.zeros(1, device=accelerator.device)
        for images, labels in batches:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            total += loss.detach()
        checkpoints.save(epoch + 1)
        mean = accelerator.reduce(total / len(batches), "mean").item()
        accelerator.print(f"epoch {epoch + 1}: loss {mean:.4f}", flush=True)
    done = {**tested(accelerator, model, test), "epochs": options.epochs, "resumed_from": resumed_from}
    accelerator.print(json.dumps({**done, "world_size": accelerator.num_processes}), flush=True)


def main() -> None:
    options = arguments()
    loading = DataLoaderConfiguration(split_batches=True, use_seedable_sampler=True)
    # It finds the ranks in the environment. Without GPUs it must be told: each rank would train alone.
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), dataloader_config=loading)
    train(options, accelerator)
    accelerator.end_training()


if __name__ == "__main__":
    main()
