"""Pictures for torch: the workers of a DataLoader decode and crop them, the device makes numbers of their bytes.

    decode = images.Decode(224, training=True)
    for pictures, labels in images.loader(Samples("train", decode=decode), 256, images.workers("auto"), training=True):
        pictures = images.normalised(pictures, device, torch.bfloat16)

Between processes, and on the way to a GPU, pictures are uint8: a quarter of float32. No worker uses CUDA.
"""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Tuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, Dataset, IterableDataset

from gpucluster_train.channels import ChannelError
from gpucluster_train.world import check_room, workers

__all__ = [
    "DECODERS",
    "Batches",
    "Decode",
    "decoder",
    "in_one_line",
    "loader",
    "loss",
    "normalised",
    "pixels",
    "workers",
]

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's colours, from 0 to 1."""
SUFFIXES = ("jpg", "jpeg", "png")
Batch = Tuple[Tensor, Tensor]
Item = TypeVar("Item")


def _by_torchcodec(data: bytes) -> Tensor:
    """It needs no FFmpeg for images (torchcodec/_core/ops.py, 0.17). PyPI's wheel loads only with a torch for CUDA."""
    picture: Tensor = importlib.import_module("torchcodec.decoders").decode_jpeg(data, mode="RGB")
    return picture.permute(1, 2, 0)


def _by_torchvision(data: bytes) -> Tensor:
    """For a torch that is too old for torchcodec's JPEGs; deprecated since torchvision 0.29."""
    io_of = importlib.import_module("torchvision.io")
    encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    picture: Tensor = io_of.decode_jpeg(encoded, mode=io_of.ImageReadMode.RGB)
    return picture.permute(1, 2, 0)


def _by_pil(data: bytes) -> Tensor:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        picture = image if image.mode == "RGB" else image.convert("RGB")
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        return pixels.view(picture.height, picture.width, 3)


DECODERS: Mapping[str, Callable[[bytes], Tensor]] = {
    "torchcodec": _by_torchcodec,
    "torchvision": _by_torchvision,
    "PIL": _by_pil,
}
"""The fastest first: from a JPEG to its pixels, H x W x 3."""
NOT_INSTALLED = (ImportError, OSError, RuntimeError, AttributeError)
"""What a package says that is missing, too old, or compiled for another torch."""


@lru_cache(maxsize=None)
def decoder() -> str:
    """The name of the fastest one that decodes a picture here."""
    from PIL import Image

    probe = io.BytesIO()
    Image.new("RGB", (8, 8)).save(probe, "JPEG")
    for name, decode in DECODERS.items():
        try:
            decode(probe.getvalue())
        except NOT_INSTALLED:
            continue
        return name
    raise ChannelError("Pillow cannot decode JPEGs: install Pillow with libjpeg, such as PyPI's")


def loss() -> str:
    """One line: what a job without the fastest decoder loses, and how it gets another; empty if it loses nothing."""
    if decoder() != "PIL":
        return ""
    return (
        "PIL decodes the pictures, which takes about a quarter more of the CPUs' time than torchcodec: "
        "`requirements: [torchvision]` in job.yaml installs a faster decoder on GPU nodes"
    )


def pixels(data: bytes, what: str) -> Tensor:
    """The picture's colours, H x W x 3, whatever its format: ImageNet has a PNG and CMYK pictures among its JPEGs.

    Raises ChannelError, which names it `what`.
    """
    try:
        return DECODERS[decoder()](data)
    except (OSError, RuntimeError, ValueError):
        return _by_pil_or_why(data, what)


def _by_pil_or_why(data: bytes, what: str) -> Tensor:
    from PIL import UnidentifiedImageError

    try:
        return _by_pil(data)
    except UnidentifiedImageError:
        why = "it is empty" if not data else "it is no picture that Pillow knows"
    except (OSError, SyntaxError, ValueError) as error:  # SyntaxError: a broken PNG
        why = str(error)
    raise ChannelError(f"{what}: cannot be decoded: {why}: replace the file, or leave it out")


class Decode:
    """Makes a sample's picture and label: uint8, size x size x 3, and the class's number.

    In training the picture is a part of 8 to 100 % of the original, up to a third wider or higher than square, and
    every second one is mirrored; otherwise it is the inner 7/8 of the largest square. `augment`: changes such a
    picture, 3 x size x size, in training. `classes`: how many the network has; a label beyond them is an error.
    """

    def __init__(
        self,
        size: int,
        training: bool,
        augment: Callable[[Tensor], Tensor] | None = None,
        *,
        classes: int | None = None,
    ) -> None:
        self.size, self.training, self._augment, self._classes = size, training, augment, classes

    def __call__(self, sample: Mapping[str, Any]) -> tuple[Tensor, int]:
        name, label = sample["__key__"], label_of(sample, self._classes)
        original = pixels(encoded_of(sample), name)
        height, width = original.shape[:2]
        left, top, right, bottom = _random(width, height) if self.training else _centre(width, height)
        picture = _resized(original[top:bottom, left:right], self.size)
        if not self.training:
            return picture, label
        if torch.rand(()) < 0.5:
            picture = picture.flip(1)
        if self._augment:
            picture = self._augment(picture.permute(2, 0, 1)).permute(1, 2, 0).contiguous()
        return picture, label


def encoded_of(sample: Mapping[str, Any]) -> bytes:
    """Raises ChannelError."""
    found = next((sample[suffix] for suffix in SUFFIXES if suffix in sample), None)
    if found is None:
        raise ChannelError(f"sample {sample['__key__']}: has no picture: it has {_parts(sample)}, not {_either()}")
    data: bytes = found
    return data


def label_of(sample: Mapping[str, Any], classes: int | None = None) -> int:
    """From 0 to `classes` - 1: with others a GPU ends the program without naming the sample. Raises ChannelError."""
    if "cls" not in sample:
        raise ChannelError(f"sample {sample['__key__']}: has no label: it has {_parts(sample)}, but no cls")
    try:
        label = int(sample["cls"])
    except ValueError:
        found = sample["cls"][:40]
        raise ChannelError(f"sample {sample['__key__']}: its cls is {found!r}; required: the class's number") from None
    if label < 0 or (classes is not None and label >= classes):
        allowed = (
            "from 0 on" if classes is None else f"from 0 to {classes - 1}, because the network has {classes} classes"
        )
        raise ChannelError(f"sample {sample['__key__']}: its label is {label}; required: {allowed}")
    return label


def _parts(sample: Mapping[str, Any]) -> str:
    return ", ".join(sorted(set(sample) - {"__key__"})) or "nothing"


def _either() -> str:
    return f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"


def _random(width: int, height: int) -> tuple[int, int, int, int]:
    drawn = torch.rand(4).tolist()  # one call: each costs more than the arithmetic
    share, ratio = 0.08 + 0.92 * drawn[0], math.exp((2 * drawn[1] - 1) * math.log(4 / 3))
    across = max(1, min(width, round(math.sqrt(width * height * share * ratio))))
    down = max(1, min(height, round(math.sqrt(width * height * share / ratio))))
    left, top = int(drawn[2] * (width - across + 1)), int(drawn[3] * (height - down + 1))
    return left, top, left + across, top + down


def _centre(width: int, height: int) -> tuple[int, int, int, int]:
    side = max(1, round(min(width, height) * 7 / 8))
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _resized(part: Tensor, size: int) -> Tensor:
    """torch's kernel for bytes wants a copy in channels_last: with a view of the rows it takes twice as long."""
    image = part.contiguous()[None].permute(0, 3, 1, 2)  # so the new dimension's stride is that of channels_last
    resized: Tensor = interpolate(image, size=(size, size), mode="bilinear", antialias=True)
    return resized[0].permute(1, 2, 0).contiguous()


class Batches:
    """A DataLoader's batches, all of one size: ranks with the same number of samples make the same number of steps.

    Each worker of a DataLoader cuts batches of its own samples, and has a rest at the end. The rests are joined here.
    In training, what is left at the very end is no batch; otherwise it is a smaller one.
    """

    def __init__(self, loader: DataLoader[Any], samples: Any, batch: int, training: bool) -> None:
        self.loader, self._samples, self._batch, self._training = loader, samples, batch, training

    def __len__(self) -> int:
        count = len(self._samples)
        return count // self._batch if self._training else -(-count // self._batch)

    def __iter__(self) -> Iterator[Batch]:
        rest: list[Batch] = []
        for pictures, labels in in_one_line(self.loader):
            if len(labels) == self._batch:
                yield pictures, labels
                continue
            rest.append((pictures, labels))
            if sum(len(each) for _, each in rest) >= self._batch:
                joined = _joined(rest)
                yield joined[0][: self._batch], joined[1][: self._batch]
                left = joined[0][self._batch :], joined[1][self._batch :]
                rest = [left] if len(left[1]) else []
        if rest and not self._training:
            yield _joined(rest)


def _joined(batches: list[Batch]) -> Batch:
    return torch.cat([pictures for pictures, _ in batches]), torch.cat([labels for _, labels in batches])


def in_one_line(loader: Iterable[Item]) -> Iterator[Item]:
    """torch puts the worker's traceback into the text of its error: only the last line is for the user."""
    try:
        yield from loader
    except ChannelError as error:
        raise ChannelError(str(error).strip().rpartition(f"{ChannelError.__name__}: ")[2]) from None


def loader(samples: Dataset[Any], batch: int, workers: int, training: bool, *, seed: int = 0) -> Batches:
    """Batches of (uint8, N x H x W x 3; int64 labels) of a data set that decodes: `Samples(…, decode=Decode(…))`.

    Its workers live through all epochs: call `samples.set_epoch(n)` before each. Ranks need different seeds. Raises
    ValueError if the workers do not fit into the node's memory.
    """
    check_room(workers)
    return Batches(
        DataLoader(
            samples, batch, num_workers=workers, pin_memory=torch.cuda.is_available(),
            persistent_workers=workers > 0,
            shuffle=False if isinstance(samples, IterableDataset) else training,
            generator=torch.Generator().manual_seed(seed),
        ),
        samples, batch, training,
    )  # fmt: skip


@lru_cache(maxsize=None)
def _colours(device: torch.device) -> tuple[Tensor, Tensor]:
    """Copied once: a copy in each step would make the CPU wait for the GPU."""
    shape = (1, 3, 1, 1)
    mean = torch.tensor(MEAN, device=device).view(shape) * 255
    return mean, 1 / (torch.tensor(DEVIATION, device=device).view(shape) * 255)


def normalised(pictures: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """From uint8, N x H x W x 3, to N x 3 x H x W in channels_last on the device, by ImageNet's mean and deviation."""
    mean, scale = _colours(device)
    found = pictures.to(device, non_blocking=True).permute(0, 3, 1, 2)  # the bytes already lie in channels_last
    return ((found - mean) * scale).to(dtype)
