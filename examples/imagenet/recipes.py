"""The hyper-parameters, once for all frameworks; each can be changed on the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from gpucluster_train import RULES, Batches, Schedule, batches


@dataclass(frozen=True)
class Recipe:
    epochs: int
    learning_rate: float
    """For a global batch of `reference_batch`; `rule` scales it for others."""
    reference_batch: int
    rule: str
    batch_per_rank: int
    warmup_epochs: float
    warmup_start: float
    end_learning_rate: float
    power: float
    momentum: float
    weight_decay: float
    """The decay of convolutions and the classifier; not of biases and batch normalization."""
    image_size: int = 224
    classes: int = 1000
    width: float = 1.0
    """Share of the channels: less for a model that a CPU trains in seconds."""

    def batches(self, world_size: int, global_batch: int | None) -> Batches:
        """A global batch that is given stays as it is, however many ranks share it."""
        per_rank = None if global_batch else self.batch_per_rank
        return batches(
            self.learning_rate, of=self.reference_batch, world_size=world_size, per_rank=per_rank,
            in_all=global_batch, rule=self.rule,
        )  # fmt: skip

    def schedule(self, peak: float, steps_per_epoch: int) -> Schedule:
        return Schedule.of_epochs(
            peak, self.epochs, steps_per_epoch, warmup_epochs=self.warmup_epochs, start=self.warmup_start,
            end=self.end_learning_rate, power=self.power,
        )  # fmt: skip


# AWS, 2018: "Scalable multi-node deep learning training using GPUs in the AWS Cloud", and the programs published with
# it (these are TensorFlow's; MXNet's fall to 0). 8 p3.16xlarge: 64 ranks, a global batch of 16384, a peak of 6.4,
# Nesterov's momentum, half precision. It reports a top-1 accuracy above 75.5 % after 90 epochs in about 50 minutes.
RESNET50 = Recipe(
    epochs=90, learning_rate=0.1, reference_batch=256, rule="linear", batch_per_rank=256, warmup_epochs=10,
    warmup_start=0.001, end_learning_rate=0.00001, power=2, momentum=0.9, weight_decay=0.0001,
)  # fmt: skip

# Tan and Le, 2019, arXiv:1905.11946: RMSProp, 350 epochs, 0.256 for a global batch of 4096. Theirs lowers the rate in
# stairs and augments images more; the fall here is the same polynomial as above.
EFFICIENTNET_B0 = Recipe(
    epochs=350, learning_rate=0.016, reference_batch=256, rule="linear", batch_per_rank=128, warmup_epochs=5,
    warmup_start=0.000001, end_learning_rate=0.00001, power=2, momentum=0.9, weight_decay=0.00001,
)  # fmt: skip

RECIPES = {"resnet50": RESNET50, "efficientnet-b0": EFFICIENTNET_B0}

# For a look at the whole machinery on a CPU: seconds, not hours. The rates are what so few steps bear.
TINY = {
    "epochs": 4, "reference_batch": 64, "batch_per_rank": 16, "warmup_epochs": 1.0,
    "weight_decay": 0.0, "image_size": 32, "classes": 4, "width": 0.125,
}  # fmt: skip
TINY_OF = {"resnet50": {"learning_rate": 0.05}, "efficientnet-b0": {"learning_rate": 0.01, "epochs": 6}}


@dataclass(frozen=True)
class Options:
    model: str
    recipe: Recipe
    data: str
    """A folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG; empty: synthetic images."""
    synthetic: str
    workers: int
    global_batch: int | None
    checkpoint: str
    precision: str
    seed: int


def check_loss(loss: float, epoch: int) -> None:
    """Ends the program, and so the job, where training has come apart: further epochs would be paid for nothing."""
    if not math.isfinite(loss):
        raise SystemExit(f"the loss is {loss} after epoch {epoch}: lower --learning-rate, or raise --warmup-epochs")


def options(models: Sequence[str], words: Sequence[str] | None = None) -> Options:
    parser = _parser(models)
    given = parser.parse_args(words)
    if bool(given.data) == bool(given.synthetic):
        parser.error("say where the images are, --data FOLDER, or --synthetic tiny|full")
    recipe = RECIPES[given.model]
    if given.synthetic == "tiny":
        recipe = replace(recipe, **{**TINY, **TINY_OF[given.model]})
    changed = {each.name: getattr(given, each.name) for each in fields(Recipe)}
    recipe = replace(recipe, **{name: value for name, value in changed.items() if value is not None})
    return Options(
        given.model, recipe, given.data, given.synthetic, given.workers, given.global_batch, given.checkpoint,
        given.precision, given.seed,
    )  # fmt: skip


def _parser(models: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train an image classifier on ImageNet with many GPUs.")
    parser.add_argument("model", choices=models)
    parser.add_argument("--data", default="", help="a folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG")
    made_up = "made-up images: a small model in seconds, or the full sizes, to measure without a disk"
    parser.add_argument("--synthetic", choices=("tiny", "full"), default="", help=made_up)
    parser.add_argument("--global-batch", type=int, help="of all ranks together, kept whatever their number")
    parser.add_argument("--workers", type=int, default=8, help="processes that read images, for each rank")
    parser.add_argument("--checkpoint", default="", help="file to go on from, written after each epoch")
    parser.add_argument("--precision", choices=("auto", "fp32", "fp16", "bf16"), default="auto")
    parser.add_argument("--seed", type=int, default=1)
    for each in fields(Recipe):
        flag, kind = f"--{each.name.replace('_', '-')}", {"int": int, "str": str}.get(str(each.type), float)
        parser.add_argument(flag, type=kind, choices=list(RULES) if each.name == "rule" else None)
    return parser
