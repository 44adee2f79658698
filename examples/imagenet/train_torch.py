"""ResNet-50 or EfficientNet with torch, under horovodrun, mpirun, torchrun or smddp: the program does not change.

gpucluster submit examples/imagenet/resnet50-ddp.yaml
python examples/imagenet/train_torch.py resnet50 --synthetic tiny       # one process, anywhere
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import images
import recipes
import torch
from checkpoints import Checkpoint
from curves import Curves
from efficientnet import efficientnet_b0, efficientnet_b4
from resnet import resnet50
from rmsprop import RMSprop
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.optim.swa_utils import get_ema_multi_avg_fn

from gpucluster_train import Schedule, log
from gpucluster_train.channels import ChannelError
from gpucluster_train.data_parallel import Ranks
from gpucluster_train.feed import Feed
from gpucluster_train.images import normalised
from gpucluster_train.torch import run, scheduler

MODELS = {"resnet50": resnet50, "efficientnet-b0": efficientnet_b0, "efficientnet-b4": efficientnet_b4}
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LOSS_SCALE = 1024.0


@dataclass(frozen=True)
class Epoch:
    loss: float
    """The mean over all ranks."""
    speed: float
    """Images that all ranks have trained on in a second."""
    data: str
    """How long the first rank waited for its data."""


class Training:
    """One rank's model and training state."""

    def __init__(self, ranks: Ranks, options: recipes.Options) -> None:
        self.ranks, self.options = ranks, options
        world, device = ranks.world, ranks.device
        self.batches = options.recipe.batches(world.size, options.global_batch)
        self.dtype = precision(options.precision, device)
        self.input_dtype = self.dtype if device.type == "cuda" else torch.float32  # autocast on CPUs casts it itself
        per_rank = self.batches.per_rank
        self.train, self.held_out = images.sources(options, world, per_rank, device, self.input_dtype)
        recipe = self.recipe = replace(options.recipe, classes=self.train.classes)
        self.feed, self.steps = Feed(self.train), len(self.train)
        if not self.steps:
            needed = f"one step of rank {world.rank} needs {per_rank} images, and it has fewer"
            raise SystemExit(f"{needed}: use fewer ranks or a smaller batch")

        torch.manual_seed(options.seed)
        self.net = MODELS[options.model](recipe.classes, recipe.width).to(device)
        self.average = copy.deepcopy(self.net) if recipe.ema_decay else None
        self.followed = [_followed(each) for each in (self.average, self.net) if each]
        self.schedule = recipe.schedule(self.batches.learning_rate, self.steps)
        optimizer = make_optimizer(self.net, options.model, recipe, self.schedule, fused=device.type == "cuda")
        self.model, self.optimizer = ranks.wrap(self.net, optimizer)
        if options.compile:
            self.model = torch.compile(self.model)
        self.scheduler = scheduler(self.optimizer, self.schedule)
        scaling = self.dtype is torch.float16 or options.compress  # small gradients would travel as 0
        self.scaler = torch.amp.GradScaler(device.type, init_scale=LOSS_SCALE, enabled=scaling)
        self.checkpoint = Checkpoint(options.checkpoint if world.is_first else "")
        for seed in (torch.manual_seed, random.seed):
            seed(options.seed + world.rank)  # dropout and mixup are not alike on all ranks

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.ranks.device.type, self.dtype, enabled=self.dtype is not torch.float32)

    def inputs(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
        device = self.ranks.device
        for pictures, labels in batches:
            if pictures.dtype is torch.uint8:
                pictures = normalised(pictures, device, self.input_dtype)
            yield pictures, labels.to(device, non_blocking=True)

    def step(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """Nothing in it waits for the GPU."""
        self.optimizer.zero_grad()
        share = random.betavariate(self.recipe.mixup, self.recipe.mixup) if self.recipe.mixup else 1.0
        if share < 1:
            pictures = torch.lerp(pictures.flip(0), pictures, share)
        smoothing = self.recipe.label_smoothing
        with self.autocast():
            outputs = self.model(pictures)
            loss = cross_entropy(outputs, labels, label_smoothing=smoothing)
            if share < 1:
                loss = share * loss + (1 - share) * cross_entropy(outputs, labels.flip(0), label_smoothing=smoothing)
        self.ranks.step(loss, self.optimizer, self.scaler)
        self.scheduler.step()
        if self.average:  # AveragedModel would ask the GPU in each step whether it is the first
            decay = min(self.recipe.ema_decay, average_decay(self.scheduler.last_epoch))
            get_ema_multi_avg_fn(decay)(*self.followed, None)
        return loss.detach()

    def epoch(self, number: int) -> Epoch:
        started, total = time.perf_counter(), torch.zeros((), device=self.ranks.device)
        self.model.train()
        self.train.set_epoch(number)
        steps = 0
        for pictures, labels in self.inputs(self.feed):
            total += self.step(pictures, labels)
            steps += 1
        if steps != self.steps:
            found = f"rank {self.ranks.world.rank} had the data of {steps} steps, not of {self.steps}"
            raise SystemExit(f"epoch {number + 1}: {found}")
        loss = self.ranks.mean(total / steps).item()
        speed = steps * self.batches.world / (time.perf_counter() - started)
        return Epoch(loss, speed, self.feed.report())

    @torch.no_grad()
    def accuracy(self) -> tuple[float, int]:
        """Top-1 on all held-out images, and their number. Each is looked at by one rank."""
        net = self.average or self.net
        self.ranks.agree(net)
        net.eval()
        right, count = torch.zeros((), device=self.ranks.device), 0
        for pictures, labels in self.inputs(self.held_out):
            with self.autocast():
                right += (net(pictures).argmax(dim=1) == labels).sum()
            count += len(labels)
        seen = torch.stack([right, torch.tensor(float(count), device=right.device)]).double()
        hits, all_images = (self.ranks.mean(seen) * self.ranks.world.size).tolist()
        return hits / max(1.0, all_images), round(all_images)

    def check_ranks_agree(self) -> None:
        """All ranks have made the same steps only if every gradient reached every one of them."""
        own = torch.stack([parameter.detach().float().abs().sum() for parameter in self.net.parameters()])
        if not torch.allclose(own, self.ranks.mean(own), rtol=1e-4):
            raise RuntimeError(
                f"rank {self.ranks.world.rank} has other weights than the mean of all: gradients were lost"
            )

    def _parts(self) -> dict[str, nn.Module | Optimizer]:
        names = ("net", "optimizer", "scaler", *(["average"] if self.average else []))
        return {name: getattr(self, name) for name in names}

    def save(self, epochs_done: int) -> None:
        if self.checkpoint.path:
            states = {name: part.state_dict() for name, part in self._parts().items()}
            self.checkpoint.save({"epochs": epochs_done, **states})

    def load(self) -> int:
        """Epochs done before: 0 without a checkpoint. Every rank reads the file, so all go on alike.

        The schedule is that of this run: the earlier one may have had another number of ranks, or another batch.
        """
        saved = Checkpoint(self.options.checkpoint).load(self.ranks.device)
        if saved is None:
            return 0
        try:
            for name, part in self._parts().items():
                part.load_state_dict(saved[name])
            done = int(saved["epochs"])
        except (KeyError, TypeError, ValueError, RuntimeError):
            other = "the checkpoint is of another model, or of other options such as --width, --classes or --ema-decay"
            raise SystemExit(f"{self.options.checkpoint}: {other}: name another file, or remove this one") from None
        self.scheduler.last_epoch = done * self.steps
        for group, rate in zip(self.optimizer.param_groups, self.scheduler.base_lrs, strict=True):
            group["lr"] = rate * self.schedule(self.scheduler.last_epoch) / self.schedule.peak
        return done


def _followed(net: nn.Module) -> list[Tensor]:
    """Weights, and normalization's statistics of the images: those of other weights would not fit the average."""
    return [*net.parameters(), *(each for each in net.buffers() if each.is_floating_point())]


def average_decay(steps: int) -> float:
    """The most that the average keeps of itself after so many steps, as tf.train.ExponentialMovingAverage has it: the
    random weights of the start would else be 7 % of it after 27,000 steps."""
    return (1 + steps) / (10 + steps)


def make_optimizer(net: nn.Module, model: str, recipe: recipes.Recipe, schedule: Schedule, *, fused: bool) -> Optimizer:
    """Biases and normalization, which have one dimension, are not decayed."""
    decayed = [each for each in net.parameters() if each.ndim > 1]
    spared = [each for each in net.parameters() if each.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    if model == "resnet50":
        return torch.optim.SGD(groups, lr=schedule.peak, momentum=recipe.momentum, nesterov=True, fused=fused)
    return RMSprop(groups, lr=schedule.peak, momentum=recipe.momentum)


def precision(asked: str, device: torch.device) -> torch.dtype:
    """Half precision where the GPU is made for it: bfloat16 needs no loss scale, and V100 has none of it."""
    if asked != "auto":
        return PRECISIONS[asked]
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def train(ranks: Ranks, options: recipes.Options) -> None:
    training = Training(ranks, options)
    epochs, last = training.recipe.epochs, Epoch(0.0, 0.0, "")
    if ranks.world.is_first:
        batch = training.batches
        print(f"{ranks.world.size} ranks, batch {batch.per_rank} each, {batch.world} in all, "
              f"peak learning rate {batch.learning_rate:g}, {training.steps} steps an epoch", flush=True)  # fmt: skip
        if lost := images.loss(options, ranks.device):
            print(lost, flush=True)
    done = training.load()
    if ranks.world.is_first:
        recipes.continued(options, done)
    curves = Curves(done)
    for epoch in range(done, epochs):
        last = training.epoch(epoch)
        recipes.check_loss(last.loss, epoch + 1)
        training.save(epoch + 1)
        reached, more = "", {}
        if options.validate_every and (epoch + 1) % options.validate_every == 0 and epoch + 1 < epochs:
            more["accuracy"], validated = training.accuracy()
            reached = f", accuracy {more['accuracy']:.4f} of {validated} images"
        curves.plot(epoch + 1, loss=last.loss, images_per_s=last.speed, **more)
        if ranks.world.is_first:
            log(step=epoch + 1, loss=last.loss, throughput=last.speed, **more)
            rate = training.optimizer.param_groups[0]["lr"]
            print(f"epoch {epoch + 1}/{epochs}: loss {last.loss:.4f}, {last.speed:.1f} images/s, {last.data}, "
                  f"next rate {rate:.5g}{reached}", flush=True)  # fmt: skip
    training.check_ranks_agree()
    accuracy, validated = training.accuracy()
    curves.plot(epochs, accuracy=accuracy)
    training.checkpoint.wait()
    if ranks.world.is_first:
        found = {"accuracy": round(accuracy, 4), "validated": validated, "loss": round(last.loss, 4),
                 "images_per_s": round(last.speed, 1), "world_size": ranks.world.size}  # fmt: skip
        log(step=epochs, accuracy=found["accuracy"])
        print(json.dumps(found), flush=True)


def or_say_why(ranks: Ranks, options: recipes.Options) -> None:
    try:
        train(ranks, options)
    except (ChannelError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    asked = recipes.options(tuple(MODELS), synthetic=(*recipes.SYNTHETIC, "gpu"))
    torch.backends.cudnn.benchmark = True  # all steps have one shape
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    run(lambda ranks: or_say_why(ranks, asked), compress=asked.compress)
