"""PyTorch Lightning: a classifier of handwritten digits, with checkpoints from which it resumes.

torchrun --nproc-per-node 2 examples/lightning/train.py --state /tmp/lightning        # without a cluster
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

TEST_IMAGES = 360


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train with Lightning.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64, help="images of a step, of all ranks together")
    parser.add_argument("--strategy", default="ddp", help="ddp, fsdp, or another of Lightning's")
    parser.add_argument("--precision", default="32-true", help="bf16-mixed on GPUs since A100")
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


class Digits(lightning.LightningDataModule):
    """Lightning gives each rank its own part."""

    def __init__(self, batch_per_rank: int) -> None:
        super().__init__()
        self.batch = batch_per_rank

    def setup(self, stage: str) -> None:
        loaded = load_digits()
        order = torch.randperm(len(loaded.target), generator=torch.Generator().manual_seed(1))
        images = torch.tensor(loaded.images, dtype=torch.float32).unsqueeze(1)[order] / 16
        labels = torch.tensor(loaded.target)[order]
        self.train = TensorDataset(images[TEST_IMAGES:], labels[TEST_IMAGES:])
        self.held_out = TensorDataset(images[:TEST_IMAGES], labels[:TEST_IMAGES])

    def train_dataloader(self) -> DataLoader[tuple[Tensor, Tensor]]:
        return DataLoader(self.train, self.batch, shuffle=True, drop_last=True)

    def test_dataloader(self) -> DataLoader[tuple[Tensor, Tensor]]:
        return DataLoader(self.held_out, self.batch)


class Classifier(lightning.LightningModule):
    def __init__(self, learning_rate: float = 2e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.resumed_from = 0
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    def on_train_start(self) -> None:
        self.resumed_from = self.current_epoch
        self.print(f"{'resumes after' if self.resumed_from else 'starts at'} epoch {self.resumed_from}", flush=True)

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        loss = self.trainer.callback_metrics["train_loss"].item()
        self.print(f"epoch {self.current_epoch + 1}: loss {loss:.4f}", flush=True)

    def test_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        images, labels = batch
        outputs = self.net(images)
        hits = (outputs.argmax(dim=1) == labels).float().mean()
        self.log("loss", nn.functional.cross_entropy(outputs, labels), on_epoch=True, sync_dist=True)
        self.log("accuracy", hits, on_epoch=True, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams["learning_rate"])


def train(options: argparse.Namespace) -> None:
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    lightning.seed_everything(0)
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),  # torchrun has started the ranks: Lightning counts them
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        strategy=options.strategy if ranks > 1 else "auto",
        precision=options.precision,
        max_epochs=options.epochs,
        callbacks=[
            ModelCheckpoint(options.state, filename="epoch-{epoch}", save_last=True, auto_insert_metric_name=False)
        ],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = options.state / "last.ckpt"
    model, data = Classifier(), Digits(options.batch // ranks)
    trainer.fit(model, data, ckpt_path=last if last.exists() else None)
    (measured,) = trainer.test(model, data, verbose=False)
    done = {**{name: round(value, 4) for name, value in measured.items()}, "epochs": trainer.current_epoch}
    trainer.print(
        json.dumps({**done, "resumed_from": model.resumed_from, "world_size": trainer.world_size}), flush=True
    )


def main() -> None:
    train(arguments())
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
