"""ImageNet as two folders of JPEGs, or images made up on the spot; for torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gpucluster_train import World

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
"""The mean and the deviation of ImageNet's colours."""
SYNTHETIC = {"tiny": (512, 128), "full": (1281167, 50000)}
"""Images to train on and to validate with; `full` has as many as ImageNet."""


NOISES = 127
"""To choose from: drawn beforehand, or a CPU could not keep up with a GPU. A prime, so that all classes
meet all of them."""


class Folder(Dataset):
    """CLASS/*.JPEG; classes are numbered in the order of their names."""

    def __init__(self, folder: Path, size: int, *, training: bool) -> None:
        classes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        self._files = [(path, number) for number, each in enumerate(classes) for path in sorted(each.iterdir())]
        if not self._files:
            raise SystemExit(f"{folder}: no images; it must hold a folder for each class, with its images")
        self.classes = len(classes)
        self._size, self._training = size, training

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        path, label = self._files[index]
        with Image.open(path) as image:
            return (self._random(image) if self._training else self._centre(image)), label

    def _random(self, image) -> Tensor:
        """A part of 8 to 100 % of the image, up to a third wider or higher than square; mirrored every second time."""
        size = (self._size, self._size)
        pixels = _pixels(image.convert("RGB").resize(size, box=_part(*image.size)))
        return pixels.flip(2) if torch.rand(()) < 0.5 else pixels

    def _centre(self, image) -> Tensor:
        """The largest square's inner 7/8."""
        width, height = image.size
        margin = min(width, height) * 7 / 16
        box = (width / 2 - margin, height / 2 - margin, width / 2 + margin, height / 2 + margin)
        return _pixels(image.convert("RGB").resize((self._size, self._size), box=box))


def _part(width: int, height: int) -> tuple[float, float, float, float]:
    share, ratio = 0.08 + 0.92 * torch.rand(()).item(), math.exp((2 * torch.rand(()).item() - 1) * math.log(4 / 3))
    across = min(width, math.sqrt(width * height * share * ratio))
    down = min(height, math.sqrt(width * height * share / ratio))
    left, top = torch.rand(()).item() * (width - across), torch.rand(()).item() * (height - down)
    return left, top, left + across, top + down


def _pixels(image) -> Tensor:
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return (flat.view(image.height, image.width, 3).permute(2, 0, 1).float() / 255 - MEAN) / DEVIATION


class Synthetic(Dataset):
    """Noise over one coarse picture for each class: easily learned, so that a wrong gradient shows."""

    def __init__(self, count: int, classes: int, size: int, first: int = 0) -> None:
        coarse = torch.randn(classes, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        self._pictures = torch.nn.functional.interpolate(coarse, size=(size, size))
        self._noise = torch.randn(NOISES, 3, size, size, generator=torch.Generator().manual_seed(first + 1))
        self._count = count
        self.classes = classes

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._pictures[index % self.classes] + self._noise[index % NOISES], index % self.classes


class Share(Sampler):
    """This rank's samples, newly shuffled each epoch and in the same order on all ranks before they part."""

    def __init__(self, count: int, world: World, seed: int, *, shuffled: bool) -> None:
        self._count, self._world, self._seed, self._shuffled = count, world, seed, shuffled
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._world.share(self._count))

    def __iter__(self) -> Iterator[int]:
        shuffle = torch.Generator().manual_seed(self._seed + self.epoch)
        order = torch.randperm(self._count, generator=shuffle) if self._shuffled else torch.arange(self._count)
        return iter(order[torch.tensor(self._world.share(self._count), dtype=torch.long)].tolist())


def loader(dataset: Dataset, share: Share, batch: int, workers: int, *, training: bool) -> DataLoader:
    return DataLoader(
        dataset, batch, sampler=share, num_workers=workers, drop_last=training,
        pin_memory=torch.cuda.is_available(), persistent_workers=training and workers > 0,
    )  # fmt: skip


def datasets(options) -> tuple[Dataset, Dataset]:
    """To train on, and to validate with."""
    size = options.recipe.image_size
    if options.data:
        folder = Path(options.data)
        return Folder(folder / "train", size, training=True), Folder(folder / "val", size, training=False)
    train, held_out = SYNTHETIC[options.synthetic]
    classes = options.recipe.classes
    return Synthetic(train, classes, size), Synthetic(held_out, classes, size, first=train)
