"""Checks of the torch recipe's parts, in a Python with torch and torchvision. usage: recipe_checks.py FOLDER

FOLDER has train/CLASS/*.JPEG. The last line is JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "imagenet"))

import checkpoints  # noqa: E402
import images  # noqa: E402
import recipes  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
import train_torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from gpucluster_train import World  # noqa: E402
from gpucluster_train import images as pictures_of  # noqa: E402
from gpucluster_train.channels import ChannelError  # noqa: E402
from gpucluster_train.data_parallel import Ddp  # noqa: E402


def networks() -> dict[str, Any]:
    """Ours with torchvision's weights, and with statistics of images that are no longer those of the start."""
    found = {}
    for name, ours in train_torch.MODELS.items():
        theirs = torchvision.models.get_model(name.replace("-", "_"))
        for layer in theirs.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.normal_(std=0.1)
                layer.running_var.uniform_(0.1, 0.3)  # small, or 18 million outputs are all zero
                if name != "resnet50":
                    layer.eps = 0.001  # of the paper's program; torchvision has it from B5 on
        own = ours(1000)
        own.load_state_dict(dict(zip(own.state_dict(), theirs.state_dict().values(), strict=True)))
        with torch.no_grad():
            picture = torch.randn(1, 3, 96, 96)
            one, other = own.eval()(picture), theirs.eval()(picture)
        found[name] = {
            "parameters": sum(each.numel() for each in own.parameters()),
            "deviates": float(one.std()) > 0,
            "equal": torch.equal(one, other),
        }
    return found


def said(data: bytes) -> str:
    try:
        return str(tuple(pictures_of.pixels(data, "train/c0/7.JPEG").shape))
    except ChannelError as error:
        return str(error)


def said_of_label(label: bytes) -> str:
    try:
        pictures_of.label_of({"__key__": "000000007", "jpg": b"", "cls": label}, 3)
    except ChannelError as error:
        return str(error)
    return ""


def layouts() -> dict[str, Any]:
    """What the net's convolutions get, and what its gradients are, of bytes as workers hand them over."""
    net = train_torch.MODELS["resnet50"](4, 0.125)
    inputs: list[bool] = []
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(
                lambda _, given, __: inputs.append(given[0].is_contiguous(memory_format=torch.channels_last))
            )
    batch = torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8)
    pictures = pictures_of.normalised(batch, torch.device("cpu"), torch.float32)
    net(pictures).sum().backward()
    expected = (batch.permute(0, 3, 1, 2) / 255 - torch.tensor(pictures_of.MEAN).view(3, 1, 1)) / torch.tensor(
        pictures_of.DEVIATION
    ).view(3, 1, 1)
    return {
        "convolutions": len(inputs),
        "in_channels_last": sum(inputs),
        "contiguous_gradients": all(each.grad.is_contiguous() for each in net.parameters()),
        "normalised": torch.allclose(pictures, expected, atol=1e-5),
    }


class Waited(Exception):
    pass


def steps_that_wait(words: list[str]) -> int:
    """Makes three steps in which whatever would wait for a GPU raises. Returns how many were made."""
    options = recipes.options(tuple(train_torch.MODELS), words)
    training = train_torch.Training(Ddp(World(), torch.device("cpu")), options)
    batches = list(training.inputs(training.train))[:3]
    names = ("item", "cpu", "tolist", "numpy", "__bool__", "__float__", "__int__")
    kept = {name: getattr(Tensor, name) for name in names}

    def waits(*_: Any, **__: Any) -> None:
        raise Waited

    training.model.train()
    for name in names:
        setattr(Tensor, name, waits)
    try:
        made = sum(1 for batch in batches if training.step(*batch) is not None)
    finally:
        for name, method in kept.items():
            setattr(Tensor, name, method)
    return made


def moving_average() -> bool:
    """Whether weights and statistics follow as in tf.train.ExponentialMovingAverage, and validation changes neither."""
    words = ["efficientnet-b0", "--synthetic", "tiny", "--global-batch", "8", "--ema-decay", "0.3"]
    training = train_torch.Training(
        Ddp(World(), torch.device("cpu")), recipes.options(tuple(train_torch.MODELS), words)
    )
    expected = {name: each.clone() for name, each in training.net.state_dict().items() if each.is_floating_point()}
    training.model.train()
    for step, batch in enumerate(list(training.inputs(training.train))[:3], start=1):
        training.step(*batch)
        decay = min(0.3, (1 + step) / (10 + step))
        for name, each in training.net.state_dict().items():
            if name in expected:
                expected[name] = decay * expected[name] + (1 - decay) * each
    training.accuracy()
    found = training.average.state_dict() if training.average else {}
    return all(torch.allclose(found[name], each, atol=1e-6) for name, each in expected.items())


def rmsprop() -> list[float]:
    """The steps of a weight with constant gradients of 0.001, beside those by TensorFlow's formula."""
    weight = nn.Parameter(torch.ones(1))
    optimizer = train_torch.RMSprop([weight], lr=0.1)
    squares, momentum, deviation = 1.0, 0.0, 0.0
    for _ in range(200):
        weight.grad = torch.full((1,), 0.001)
        before = weight.item()
        optimizer.step()
        squares = 0.9 * squares + 0.1 * 1e-6
        momentum = 0.9 * momentum + 0.1 * 0.001 / (squares + 0.001) ** 0.5
        deviation = max(deviation, abs(before - weight.item() - momentum))
    return [deviation, momentum]


def compressed() -> float:
    """A gradient of 0.00000001 after its way through 16 bits."""
    words = ["resnet50", "--synthetic", "tiny", "--global-batch", "8", "--compress", "--precision", "bf16"]
    ranks = Ddp(World(), torch.device("cpu"), compress=True)
    scaler = train_torch.Training(ranks, recipes.options(tuple(train_torch.MODELS), words)).scaler
    net = nn.Linear(1, 1, bias=False)
    model, optimizer = ranks.wrap(net, torch.optim.SGD(net.parameters(), lr=1.0))
    ranks.step(1e-8 * model(torch.ones(1, 1)).sum(), optimizer, scaler)
    return net.weight.grad.item()


def checkpoint(folder: Path) -> dict[str, Any]:
    """A later step changes the weights while the thread writes; and a checkpoint that cannot be written."""
    weights, writes = torch.zeros(4), threading.Event()
    whole = checkpoints.Checkpoint(str(folder / "whole.pt"))
    save = torch.save

    def slowly(*given: Any) -> None:
        writes.wait(30)
        save(*given)

    checkpoints.torch.save = slowly
    started = time.perf_counter()
    whole.save({"net": {"weights": weights}, "epochs": 1})
    took_s = time.perf_counter() - started
    weights += 1
    writes.set()
    whole.wait()
    checkpoints.torch.save = save
    broken = checkpoints.Checkpoint(str(folder / "none" / "at.pt"))
    broken.save({"epochs": 1})
    try:
        broken.save({"epochs": 2})
        failure = ""
    except SystemExit as error:
        failure = str(error)
    saved = whole.load(torch.device("cpu"))
    return {"waited": took_s > 10, "saved": saved["net"]["weights"].tolist() if saved else None, "failure": failure}


def folder_of(path: Path) -> dict[str, Any]:
    decode = pictures_of.Decode(16, training=False)
    made = [images.Folder(path / "train", decode, World(rank, 3), 0, training=False) for rank in range(3)]
    loaders = [pictures_of.loader(each, 5, 2, False) for each in made]
    seen = [sum(len(labels) for _, labels in loader) for loader in loaders]
    training = images.Folder(path / "train", decode, World(0, 3), 0, training=True)
    batches = [len(labels) for _, labels in pictures_of.loader(training, 5, 3, True)]
    fewer = images.Folder(path / "train", decode, World(), 0, training=False)
    fewer.names = fewer.names[1:]
    try:
        images.check_classes(training, fewer)
        other = ""
    except SystemExit as error:
        other = str(error)
    found = {"count": made[0]._count, "validated": seen, "of_a_rank": len(training), "batches": batches}
    return {**found, "other_classes": other}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    jpeg = next(iter(sorted((folder / "train").glob("*/*")))).read_bytes()
    tiny = ["--synthetic", "tiny", "--global-batch", "8"]
    all_on = ["--mixup", "0.2", "--ema-decay", "0.9", "--label-smoothing", "0.1", "--precision", "bf16"]
    report = {
        "networks": networks(),
        "decoders": {"truncated": said(jpeg[:-40]), "empty": said(b""), "text": said(b"hello")},
        "labels": [said_of_label(label) for label in (b"2", b"3", b"cat")],
        "layouts": layouts(),
        "steps": [
            steps_that_wait(["resnet50", *tiny]),
            steps_that_wait(["efficientnet-b0", *tiny, *all_on]),
        ],
        "moving_average": moving_average(),
        "rmsprop": rmsprop(),
        "compressed": compressed(),
        "checkpoint": checkpoint(folder),
        "folder": folder_of(folder),
    }
    print(json.dumps(report), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
