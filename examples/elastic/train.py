"""Elastic Horovod: a classifier of handwritten digits that trains on when a node is lost, with the ranks that are left.

horovodrun -np 2 --min-np 1 --host-discovery-script ./hosts.sh python examples/elastic/train.py   # without a cluster
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import horovod.torch as hvd
import torch
from horovod.torch.elastic import ElasticSampler, TorchState, run
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

TEST_IMAGES = 360


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train with elastic Horovod.")
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
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def tested(model: nn.Module, test_set: TensorDataset, device: torch.device) -> dict[str, float]:
    images, labels = test_set.tensors
    model.eval()
    with torch.no_grad():
        outputs = model(images.to(device)).cpu()
    loss, hits = nn.functional.cross_entropy(outputs, labels), (outputs.argmax(dim=1) == labels).float().mean()
    return {"loss": round(loss.item(), 4), "accuracy": round(hits.item(), 4)}


def main() -> None:
    options = arguments()
    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    train_set, test_set = digits()
    sampler = ElasticSampler(train_set, shuffle=True, seed=0)
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    def step(images: Tensor, labels: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    @run
    def train(state: TorchState) -> None:
        """Called again with the state of the last commit whenever ranks come or go."""
        while state.epoch < options.epochs:
            loss = torch.zeros(())
            for index, (images, labels) in enumerate(
                DataLoader(train_set, options.batch // hvd.size(), sampler=sampler)
            ):
                loss = step(images, labels)
                state.sampler.record_batch(index, options.batch // hvd.size())
                if index % 4 == 3:
                    state.commit()  # what a lost node costs at most: the steps since
            if hvd.rank() == 0:
                print(f"epoch {state.epoch + 1}: loss {loss.item():.4f}, {hvd.size()} ranks", flush=True)
            state.epoch += 1
            state.sampler.set_epoch(state.epoch)
            state.commit()
            save(state.epoch)

    file = options.state / "checkpoint.pt"

    def save(epochs: int) -> None:
        """For the job that is submitted again; a lost node needs it not."""
        if hvd.rank() == 0:
            file.parent.mkdir(parents=True, exist_ok=True)
            saved = {"epochs": epochs, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(saved, f"{file}.tmp")
            os.replace(f"{file}.tmp", file)

    resumed_from = 0
    if file.exists():
        saved = torch.load(file, map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        resumed_from = int(saved["epochs"])
        sampler.set_epoch(resumed_from)
    train(TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=resumed_from))
    if hvd.rank() == 0:
        done = {**tested(model, test_set, device), "epochs": options.epochs}
        print(json.dumps({**done, "resumed_from": resumed_from, "world_size": hvd.size()}), flush=True)


if __name__ == "__main__":
    main()
