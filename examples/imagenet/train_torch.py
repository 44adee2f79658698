"""ResNet-50 or EfficientNet-B0 with torch, under horovodrun, mpirun, torchrun or smddp: the program does not change.

gpucluster submit examples/imagenet/resnet50-ddp.yaml
python examples/imagenet/train_torch.py resnet50 --synthetic tiny       # one process, anywhere
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import images
import recipes
import torch
from efficientnet import efficientnet_b0
from resnet import resnet50
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from gpucluster_train import Schedule
from gpucluster_train.data_parallel import Ranks
from gpucluster_train.torch import run, scheduler

MODELS = {"resnet50": resnet50, "efficientnet-b0": efficientnet_b0}
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LOSS_SCALE = 1024.0


class Training:
    """One rank's model and training state."""

    def __init__(self, ranks: Ranks, options: recipes.Options) -> None:
        self.ranks, self.options = ranks, options
        self.train, held_out = images.datasets(options)
        recipe = self.recipe = replace(options.recipe, classes=self.train.classes)
        self.batches = recipe.batches(ranks.world.size, options.global_batch)
        self.steps = self.batches.steps(len(self.train))
        self.share = images.Share(len(self.train), ranks.world, options.seed, shuffled=True)
        self.loader = self._loader(self.train, self.share, training=True)
        rest = images.Share(len(held_out), ranks.world, options.seed, shuffled=False)
        self.held_out = self._loader(held_out, rest, training=False)

        torch.manual_seed(options.seed)
        self.net = MODELS[options.model](recipe.classes, recipe.width).to(ranks.device)
        self.schedule = recipe.schedule(self.batches.learning_rate, self.steps)
        optimizer = make_optimizer(self.net, options.model, recipe, self.schedule)
        self.model, self.optimizer = ranks.wrap(self.net, optimizer)
        self.scheduler = scheduler(self.optimizer, self.schedule)
        self.dtype = precision(options.precision, ranks.device)
        scaling = self.dtype is torch.float16
        self.scaler = torch.amp.GradScaler(ranks.device.type, init_scale=LOSS_SCALE, enabled=scaling)

    def _loader(self, dataset: torch.utils.data.Dataset, share: images.Share, *, training: bool) -> DataLoader:
        workers = 0 if self.options.synthetic == "tiny" else self.options.workers
        return images.loader(dataset, share, self.batches.per_rank, workers, training=training)

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(self.ranks.device.type, self.dtype, enabled=self.dtype is not torch.float32):
            return nn.functional.cross_entropy(self.model(pictures), labels)

    def epoch(self, number: int) -> tuple[float, float]:
        """Mean loss over all ranks, and images that all ranks have trained on in a second."""
        started, total = time.perf_counter(), torch.zeros((), device=self.ranks.device)
        self.share.epoch = number
        self.model.train()
        for pictures, labels in self.loader:
            self.optimizer.zero_grad()
            loss = self.loss(pictures.to(self.ranks.device, non_blocking=True), labels.to(self.ranks.device))
            self.ranks.step(loss, self.optimizer, self.scaler)
            self.scheduler.step()
            total += loss.detach()
        mean = self.ranks.mean(total / self.steps).item()
        return mean, self.steps * self.batches.world / (time.perf_counter() - started)

    @torch.no_grad()
    def accuracy(self) -> float:
        """Top-1, on held-out images, each looked at by one rank."""
        self.ranks.agree(self.net)
        self.net.eval()
        right = torch.zeros(2, device=self.ranks.device)
        for pictures, labels in self.held_out:
            guesses = self.net(pictures.to(self.ranks.device)).argmax(dim=1).cpu()
            right += torch.tensor([(guesses == labels).sum(), len(labels)], device=self.ranks.device)
        hits, all_images = self.ranks.mean(right).tolist()
        return hits / all_images

    def check_ranks_agree(self) -> None:
        """All ranks have made the same steps only if every gradient reached every one of them."""
        own = torch.stack([parameter.detach().float().abs().sum() for parameter in self.net.parameters()])
        if not torch.allclose(own, self.ranks.mean(own), rtol=1e-4):
            raise RuntimeError(
                f"rank {self.ranks.world.rank} has other weights than the mean of all: gradients were lost"
            )

    def save(self, epochs_done: int) -> None:
        if not self.options.checkpoint or not self.ranks.world.is_first:
            return
        parts = {name: getattr(self, name).state_dict() for name in ("net", "optimizer", "scheduler", "scaler")}
        torch.save({"epochs": epochs_done, **parts}, f"{self.options.checkpoint}.new")
        os.replace(f"{self.options.checkpoint}.new", self.options.checkpoint)

    def load(self) -> int:
        """Epochs done before: 0 without a checkpoint. Every rank reads the file, so all go on alike."""
        if not os.path.exists(self.options.checkpoint):
            return 0
        saved = torch.load(self.options.checkpoint, map_location=self.ranks.device)
        for name in ("net", "optimizer", "scheduler", "scaler"):
            getattr(self, name).load_state_dict(saved[name])
        return int(saved["epochs"])


def make_optimizer(net: nn.Module, model: str, recipe: recipes.Recipe, schedule: Schedule) -> Optimizer:
    """Biases and normalization, which have one dimension, are not decayed."""
    decayed = [each for each in net.parameters() if each.ndim > 1]
    spared = [each for each in net.parameters() if each.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    if model == "resnet50":
        return torch.optim.SGD(groups, lr=schedule.peak, momentum=recipe.momentum, nesterov=True)
    return torch.optim.RMSprop(groups, lr=schedule.peak, alpha=0.9, eps=0.001, momentum=recipe.momentum)


def precision(asked: str, device: torch.device) -> torch.dtype:
    """Half precision where the GPU is made for it: bfloat16 needs no loss scale, and V100 has none of it."""
    if asked != "auto":
        return PRECISIONS[asked]
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def train(ranks: Ranks, options: recipes.Options) -> None:
    training = Training(ranks, options)
    epochs, loss, speed = training.recipe.epochs, 0.0, 0.0
    if ranks.world.is_first:
        batch = training.batches
        print(f"{ranks.world.size} ranks, batch {batch.per_rank} each, {batch.world} in all, "
              f"peak learning rate {batch.learning_rate:g}, {training.steps} steps an epoch", flush=True)  # fmt: skip
    for epoch in range(training.load(), epochs):
        loss, speed = training.epoch(epoch)
        recipes.check_loss(loss, epoch + 1)
        training.save(epoch + 1)
        if ranks.world.is_first:
            rate = training.optimizer.param_groups[0]["lr"]
            print(
                f"epoch {epoch + 1}/{epochs}: loss {loss:.4f}, {speed:.1f} images/s, next rate {rate:.5g}", flush=True
            )
    training.check_ranks_agree()
    accuracy = training.accuracy()
    if ranks.world.is_first:
        found = {"accuracy": round(accuracy, 4), "loss": round(loss, 4), "images_per_s": round(speed, 1)}
        print(json.dumps({**found, "world_size": ranks.world.size}), flush=True)


if __name__ == "__main__":
    asked = recipes.options(tuple(MODELS))
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    run(lambda ranks: train(ranks, asked))
