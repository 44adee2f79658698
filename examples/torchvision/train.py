"""ImageNet with torchvision's models and transforms, as PyTorch's own example trains it: DDP, SGD, a folder of images.

torchrun --nproc-per-node 2 examples/torchvision/train.py --state /tmp/torchvision    # without a cluster
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models, transforms

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a model of torchvision on a folder of images.")
    parser.add_argument("--data", type=Path, help="train/CLASS/* and val/CLASS/*; default: 480 images are made up")
    parser.add_argument("--model", default="resnet18", help="of torchvision.models")
    parser.add_argument("--size", type=int, default=64, help="pixels; ImageNet: 224")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32, help="images of a step, of all ranks together")
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--workers", default="auto", help="processes that read images, for each rank; auto: by CPUs")
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


def make_images(folder: Path, classes: int = 4) -> None:
    """JPEGs in ImageNet's layout: noise over one coarse picture for each class."""
    draw = numpy.random.default_rng(0)
    coarse = draw.integers(0, 256, (classes, 4, 4, 3))
    for part, count in (("train", 96), ("val", 24)):
        for number in range(classes * count):
            kind = number % classes
            pixels = coarse[kind].repeat(20, axis=0).repeat(20, axis=1) + draw.normal(0, 40, (80, 80, 3))
            (folder / part / f"class-{kind}").mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))
            image.save(folder / part / f"class-{kind}" / f"{number}.jpeg")


def workers(asked: str) -> int:
    """A rank's share of the node's CPUs, without two for torch's own threads."""
    if asked != "auto":
        return int(asked)
    share = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return max(0, share - 2)


def precision(device: torch.device) -> torch.dtype:
    """bfloat16 needs no loss scale; V100 has none of it."""
    half = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8
    return torch.bfloat16 if half else torch.float32


def loaders(options: argparse.Namespace, folder: Path) -> tuple[DataLoader, DataLoader, int]:
    """To train on, to validate with, and the number of classes."""
    last = transforms.PILToTensor()  # bytes: the GPU makes numbers of them
    random = transforms.Compose([transforms.RandomResizedCrop(options.size), transforms.RandomHorizontalFlip(), last])
    centre = transforms.Compose([transforms.Resize(options.size * 8 // 7), transforms.CenterCrop(options.size), last])
    train, val = datasets.ImageFolder(folder / "train", random), datasets.ImageFolder(folder / "val", centre)
    share = {
        "batch_size": options.batch // dist.get_world_size(),
        "num_workers": workers(options.workers),
        "pin_memory": torch.cuda.is_available(),
    }
    return (
        DataLoader(train, sampler=DistributedSampler(train, drop_last=True), drop_last=True, **share),
        DataLoader(val, sampler=DistributedSampler(val, shuffle=False), **share),
        len(train.classes),
    )


class Training:
    def __init__(self, options: argparse.Namespace, classes: int, device: torch.device) -> None:
        torch.manual_seed(0)
        self.device, self.file = device, options.state / "checkpoint.pt"
        net = models.get_model(options.model, num_classes=classes)
        self.net = net.to(device, memory_format=torch.channels_last)
        self.mean, self.deviation = (torch.tensor(each, device=device).view(3, 1, 1) for each in (MEAN, DEVIATION))
        self.dtype = precision(device)
        self.model = DistributedDataParallel(self.net)
        rate = options.learning_rate
        self.optimizer = torch.optim.SGD(self.net.parameters(), rate, momentum=0.9, weight_decay=1e-4)

    def batches(self, loader: DataLoader) -> Iterator[tuple[Tensor, Tensor]]:
        """On the device, normalised, in channels_last: the order in which half precision is fastest."""
        for images, labels in loader:
            images = images.to(self.device, non_blocking=True).float() / 255
            images = ((images - self.mean) / self.deviation).contiguous(memory_format=torch.channels_last)
            yield images, labels.to(self.device, non_blocking=True)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype is torch.bfloat16)

    def epoch(self, loader: DataLoader) -> float:
        """The mean loss over all ranks."""
        self.model.train()
        total = torch.zeros((), device=self.device)
        for images, labels in self.batches(loader):
            with self.autocast():
                loss = nn.functional.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        return total.item() / len(loader) / dist.get_world_size()

    @torch.no_grad()
    def measured(self, loader: DataLoader) -> dict[str, float]:
        """Loss and top-1 accuracy. Where the ranks' shares are not equal, some images count twice."""
        self.model.eval()
        seen: Tensor = torch.zeros(3, device=self.device)
        for images, labels in self.batches(loader):
            with self.autocast():
                outputs = self.net(images).float()
            loss = nn.functional.cross_entropy(outputs, labels, reduction="sum")
            hits = (outputs.argmax(dim=1) == labels).sum()
            seen += torch.stack([loss, hits, torch.tensor(len(labels), device=self.device)])
        dist.all_reduce(seen)
        mean_loss, accuracy = (seen[:2] / seen[2]).tolist()
        return {"loss": round(mean_loss, 4), "accuracy": round(accuracy, 4)}

    def save(self, epochs: int) -> None:
        if dist.get_rank() == 0:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            saved = {"epochs": epochs, "net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(saved, f"{self.file}.tmp")
            os.replace(f"{self.file}.tmp", self.file)
        dist.barrier()

    def load(self) -> int:
        """Epochs done before."""
        if not self.file.exists():
            return 0
        saved = torch.load(self.file, map_location=self.device)
        self.net.load_state_dict(saved["net"])
        self.optimizer.load_state_dict(saved["optimizer"])
        return int(saved["epochs"])


def train(options: argparse.Namespace, device: torch.device) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    folder = options.data or options.state / "images"
    if not options.data and rank == 0 and not folder.exists():
        make_images(folder)
    dist.barrier()
    train_set, val_set, classes = loaders(options, folder)
    training = Training(options, classes, device)
    resumed_from = training.load()
    for epoch in range(resumed_from, options.epochs):
        train_set.sampler.set_epoch(epoch)
        torch.manual_seed(epoch * ranks + rank)  # of the transforms, alike after a restart
        loss = training.epoch(train_set)
        training.save(epoch + 1)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}", flush=True)
    measured = training.measured(val_set)
    if rank == 0:
        done = {**measured, "epochs": options.epochs, "resumed_from": resumed_from, "world_size": ranks}
        print(json.dumps(done), flush=True)


def main() -> None:
    options = arguments()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True  # all steps have one shape
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(options, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
