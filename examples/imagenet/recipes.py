"""The hyper-parameters, once for all frameworks; each can be changed on the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from gpucluster_train import RULES, Batches, Schedule, batches, channels
from gpucluster_train.world import workers


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
    label_smoothing: float = 0.0
    mixup: float = 0.0
    """Two pictures are mixed, by a share of Beta(mixup, mixup); 0: none."""
    ema_decay: float = 0.0
    """The weights to validate with follow those that are trained: their moving average, step by step; 0: the same."""
    augment: str = "none"
    """`autoaugment`: torchvision's, with the policy for ImageNet."""
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

# Tan and Le, 2019, arXiv:1905.11946: RMSProp, 350 epochs, 0.256 for a global batch of 4096, AutoAugment; their program
# has label smoothing and the moving average. Theirs lowers the rate in stairs; the fall here is the same polynomial as
# above.
EFFICIENTNET_B0 = Recipe(
    epochs=350, learning_rate=0.016, reference_batch=256, rule="linear", batch_per_rank=128, warmup_epochs=5,
    warmup_start=0.000001, end_learning_rate=0.00001, power=2, momentum=0.9, weight_decay=0.00001,
    label_smoothing=0.1, ema_decay=0.9999, augment="autoaugment",
)  # fmt: skip

# NVIDIA's DeepLearningExamples (commit 729963dd, PyTorch/Classification/ConvNets/configs.yml) has for
# efficientnet_b4_params_4k these epochs, warm-up, weight decay and mixup, and 0.16 for a global batch of 4096, as 0.005
# for 128 in AWS's post on EfficientNet. NVIDIA trains 64 images on a V100 with 32 GB and 128 on an A100. Its epsilon is
# 0.01, its rate falls as a cosine, and it keeps no moving average; these are as in B0 here.
EFFICIENTNET_B4 = replace(
    EFFICIENTNET_B0, epochs=400, learning_rate=0.005, reference_batch=128, batch_per_rank=64, warmup_epochs=16,
    weight_decay=0.000005, mixup=0.2, image_size=380,
)  # fmt: skip

RECIPES = {"resnet50": RESNET50, "efficientnet-b0": EFFICIENTNET_B0, "efficientnet-b4": EFFICIENTNET_B4}

# For a look at the whole machinery on a CPU: seconds, not hours. The rates are what so few steps bear.
TINY = {
    "epochs": 4, "reference_batch": 64, "batch_per_rank": 16, "warmup_epochs": 1.0,
    "weight_decay": 0.0, "image_size": 32, "classes": 4, "width": 0.125,
    "label_smoothing": 0.0, "mixup": 0.0, "ema_decay": 0.0, "augment": "none",
}  # fmt: skip
TINY_OF = {
    "resnet50": {"learning_rate": 0.05},
    "efficientnet-b0": {"learning_rate": 0.01, "epochs": 6},
    "efficientnet-b4": {"learning_rate": 0.01, "epochs": 6},
}
CHOICES = {"rule": list(RULES), "augment": ["none", "autoaugment"]}
LEAST = {"epochs": 1, "batch_per_rank": 1, "image_size": 1, "classes": 1, "global_batch": 1, "validate_every": 0}
SYNTHETIC = {"tiny": (512, 128), "full": (1281167, 50000)}
"""Made-up images to train on and to validate with; `full` has as many as ImageNet."""
NOISES = 127
"""To choose from, for made-up images: drawn beforehand, or a CPU could not keep up with a GPU. A prime, so that all
classes meet all of them."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""The mean and the deviation of ImageNet's colours, from 0 to 1."""
CHANNELS = ("train", "val")


@dataclass(frozen=True)
class Options:
    model: str
    recipe: Recipe
    data: str
    """A folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG. Without it and without `synthetic`: the job's channels."""
    synthetic: str
    workers: int
    global_batch: int | None
    checkpoint: str
    precision: str
    seed: int
    validate_every: int
    """Epochs; 0: only at the end."""
    compile: bool
    compress: bool
    decode: str


def check_loss(loss: float, epoch: int) -> None:
    """Ends the program, and so the job, where training has come apart: further epochs would be paid for nothing."""
    if not math.isfinite(loss):
        raise SystemExit(f"the loss is {loss} after epoch {epoch}: lower --learning-rate, or raise --warmup-epochs")


def options(
    models: Sequence[str],
    words: Sequence[str] | None = None,
    *,
    synthetic: Sequence[str] = tuple(SYNTHETIC),
    lacks: Sequence[str] = (),
) -> Options:
    """`lacks`: options that this program refuses, such as "mixup", or only one value of them: "precision bf16"."""
    parser = _parser(models, synthetic)
    given = parser.parse_args(words)
    for name, _, value in (each.partition(" ") for each in lacks):
        found = getattr(given, name)
        if found if not value else str(found) == value:
            flag = f"--{name.replace('_', '-')}{value and ' '}{value}"
            parser.error(f"argument {flag}: {parser.prog} does not have it: leave it out, or use train_torch.py")
    if given.data and given.synthetic or not (given.data or given.synthetic or has_channels()):
        kinds = "|".join(synthetic)
        parser.error(
            f"say where the images are: --data FOLDER, --synthetic {kinds}, or the job's channels train and val"
        )
    recipe = RECIPES[given.model]
    if given.synthetic == "tiny":
        recipe = replace(recipe, **{**TINY, **TINY_OF[given.model]})
    changed = {each.name: getattr(given, each.name) for each in fields(Recipe)}
    if not (given.data or given.synthetic):
        changed["classes"] = _classes(parser, given.classes)
    recipe = replace(recipe, **{name: value for name, value in changed.items() if value is not None})
    for name, least in LEAST.items():
        if (value := changed[name] if name in changed else getattr(given, name)) is not None and value < least:
            parser.error(f"argument --{name.replace('_', '-')}: must be at least {least}, got {value}")
    if not 0 <= recipe.warmup_epochs < recipe.epochs:
        parser.error(
            f"argument --warmup-epochs: must be from 0 to less than --epochs, which is {recipe.epochs}; got "
            f"{recipe.warmup_epochs:g}"
        )
    return Options(
        given.model, recipe, given.data, given.synthetic, given.workers, given.global_batch, given.checkpoint,
        given.precision, given.seed, given.validate_every, given.compile, given.compress,
        given.decode,
    )  # fmt: skip


def has_channels() -> bool:
    """Whether the job has the channels that the recipes read."""
    try:
        return set(CHANNELS) <= set(channels.names())
    except channels.ChannelError:  # not in a job
        return False


def _classes(parser: argparse.ArgumentParser, asked: int | None) -> int | None:
    """As many as the job's channels have by their manifests; `asked` if these name none, or to have more."""
    try:
        train, held_out = (channels.channel(name).classes for name in CHANNELS)
    except (channels.ChannelError, ValueError) as error:
        parser.error(str(error))
    if train and held_out and set(train) != set(held_out):
        other = sorted(set(train) ^ set(held_out))[0]
        parser.error(f"{other}: only one of the channels train and val has this class: pack both from one folder")
    found = len(train or held_out)
    if found and asked is not None and asked < found:
        parser.error(f"argument --classes: {asked} are too few: the channel train has {found}, so leave it out")
    return found if asked is None and found else asked


def continued(options: Options, epochs: int) -> None:
    """Says of the first rank that its training began in an earlier run."""
    if epochs:
        print(f"continues after epoch {epochs} of {options.checkpoint}", flush=True)


def _workers(asked: str) -> int:
    try:
        return workers(asked)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser(models: Sequence[str], synthetic: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train an image classifier on ImageNet with many GPUs.")
    parser.add_argument("model", choices=models)
    parser.add_argument("--data", default="", help="a folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG")
    made_up = "made-up images: a small model in seconds; the full sizes; gpu: one batch that stays on the GPU"
    parser.add_argument("--synthetic", choices=synthetic, default="", help=made_up)
    parser.add_argument("--global-batch", type=int, help="of all ranks together, kept whatever their number")
    share = "processes that read images, for each rank; auto: its share of the node's CPUs, without two"
    parser.add_argument("--workers", type=_workers, default="auto", metavar="N|auto", help=share)
    where = "auto: DALI decodes on the GPU if it is installed, and if the recipe augments no further"
    parser.add_argument("--decode", choices=("auto", "cpu", "gpu"), default="auto", help=where)
    parser.add_argument("--checkpoint", default="", help="file to go on from, written after each epoch")
    parser.add_argument("--precision", choices=("auto", "fp32", "fp16", "bf16"), default="auto")
    parser.add_argument("--seed", type=int, default=1)
    curve = "epochs between validations, for accuracy over time; 0: only at the end"
    parser.add_argument("--validate-every", type=int, default=0, metavar="EPOCHS", help=curve)
    parser.add_argument("--compile", action="store_true", help="torch.compile; the first step takes minutes")
    half = "send gradients as 16 bits: for networks as slow as 25 Gbit/s"
    parser.add_argument("--compress", action="store_true", help=half)
    for each in fields(Recipe):
        flag, kind = f"--{each.name.replace('_', '-')}", {"int": int, "str": str}.get(str(each.type), float)
        parser.add_argument(flag, type=kind, choices=CHOICES.get(each.name))
    return parser
