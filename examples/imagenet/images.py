"""ImageNet from a job's channels or two folders of JPEGs, or images made up on the spot; for torch."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy
import recipes
import torch
from recipes import NOISES, Options, Recipe
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from gpucluster_train import World, images
from gpucluster_train.channels import ChannelError
from gpucluster_train.images import Decode, loader
from gpucluster_train.torch_samples import Samples

SYNTHETIC = {**recipes.SYNTHETIC, "gpu": (1281167, 0)}
"""`gpu`: one batch that stays there."""
Picture = tuple[Tensor, int]
"""uint8, height x width x 3, and the class's number."""


class Source(Protocol):
    """One rank's batches, in training as many of them on every rank: int64 N, and uint8 N x H x W x 3, or normalised
    N x 3 x H x W on the device."""

    classes: int

    def __len__(self) -> int:
        """Batches of an epoch."""

    def set_epoch(self, epoch: int) -> None: ...

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """A pass over the epoch."""


class Indexed(IterableDataset):
    """Pictures that have numbers: newly shuffled each epoch, in the same order on all ranks before they part."""

    def __init__(self, count: int, world: World, seed: int, *, training: bool) -> None:
        super().__init__()
        self._count, self._world, self._seed, self._training = count, world, seed, training
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # workers live through all epochs

    def __len__(self) -> int:
        return len(self._own)

    @property
    def _own(self) -> range:
        """In training the same number on all ranks; otherwise each picture on one."""
        return self._world.share(self._count) if self._training else self._world.part(self._count)

    def set_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        order = torch.arange(self._count)
        if self._training:
            order = torch.randperm(self._count, generator=torch.Generator().manual_seed(self._seed + int(self._epoch)))
        worker = get_worker_info()
        own = self._own[worker.id :: worker.num_workers] if worker else self._own
        return (self.picture(int(order[place])) for place in own)

    def picture(self, index: int) -> Any:
        raise NotImplementedError


class Folder(Indexed):
    """CLASS/*.JPEG; classes are numbered in the order of their names."""

    def __init__(self, folder: Path, decode: Decode | None, world: World, seed: int, *, training: bool) -> None:
        self._folder, self._decode = folder, decode
        self.names = sorted(each.name for each in os.scandir(folder) if each.is_dir()) if folder.is_dir() else []
        # No list: 1.28 million objects of Python would be copied into each worker, which counts their references.
        files = [_files(folder / name) for name in self.names]
        self._files = numpy.concatenate(files) if files else numpy.array([], "S1")
        self._first = numpy.cumsum([0, *map(len, files)])
        if not len(self._files):
            raise SystemExit(f"{folder}: no images; it must hold a folder for each class, with its images")
        self.classes = len(self.names)
        super().__init__(len(self._files), world, seed, training=training)

    def picture(self, index: int) -> Picture | dict[str, Any]:
        label = int(numpy.searchsorted(self._first, index, side="right")) - 1
        path = self._folder / self.names[label] / os.fsdecode(self._files[index])
        sample = {"__key__": str(path), "jpg": path.read_bytes(), "cls": b"%d" % label}
        return self._decode(sample) if self._decode else sample


def _files(folder: Path) -> numpy.ndarray:
    return numpy.array(sorted(os.fsencode(each.name) for each in os.scandir(folder) if each.name[0] != "."), "S")


class Synthetic(Indexed):
    """Noise over one coarse picture for each class: easily learned, so that a wrong gradient shows."""

    def __init__(self, count: int, recipe: Recipe, world: World, seed: int, *, training: bool, first: int = 0) -> None:
        size, self.classes = recipe.image_size, recipe.classes
        draw = torch.Generator().manual_seed(0)
        coarse = torch.randn(self.classes, 3, 4, 4, generator=draw)
        pictures = torch.nn.functional.interpolate(coarse, size=(size, size)).permute(0, 2, 3, 1)
        draw.manual_seed(first + 1)
        noise = torch.randn(NOISES, size, size, 3, generator=draw)
        self._pictures, self._noise = ((32 * each + 60).clamp(0, 127).byte() for each in (pictures, noise))
        super().__init__(count, world, seed, training=training)

    def picture(self, index: int) -> Picture:
        return self._pictures[index % self.classes] + self._noise[index % NOISES], index % self.classes


class Loaded:
    """Batches of samples: of the pictures' bytes, or normalised already if DALI decodes them."""

    def __init__(self, samples: Any, batches: Any, classes: int) -> None:
        self.classes, self._samples, self._batches = classes, samples, batches

    def __len__(self) -> int:
        return len(self._batches)

    def set_epoch(self, epoch: int) -> None:
        self._samples.set_epoch(epoch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self._batches)


class Resident:
    """One batch that stays on the device: what the GPU takes if nothing else limits it."""

    def __init__(self, count: int, batch: int, recipe: Recipe, device: torch.device) -> None:
        shape = (batch, recipe.image_size, recipe.image_size, 3)
        self.classes, self._steps = recipe.classes, count // batch
        self._pictures = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
        self._labels = torch.randint(0, recipe.classes, (batch,), device=device)

    def __len__(self) -> int:
        return self._steps

    def set_epoch(self, epoch: int) -> None:
        """Each is alike."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return ((self._pictures, self._labels) for _ in range(self._steps))


def sources(
    options: Options, world: World, batch: int, device: torch.device, dtype: torch.dtype
) -> tuple[Source, Source]:
    """To train on, and to validate with. `batch`: pictures of a step of one rank. Raises ChannelError."""
    if options.synthetic == "gpu":
        train, held_out = (count // world.size for count in SYNTHETIC["gpu"])
        return Resident(train, batch, options.recipe, device), Resident(held_out, batch, options.recipe, device)
    on_gpu, found, folders = decodes_on_gpu(options, device), [], []
    workers = 0 if options.synthetic == "tiny" else options.workers
    for training in (True, False):
        samples = _samples(options, world, training=training, decoded=not on_gpu)
        classes = getattr(samples, "classes", options.recipe.classes)
        if on_gpu:
            dali, size = importlib.import_module(DALI), options.recipe.image_size
            batches = dali.Batches(samples, batch, size, training, device, dtype, classes=classes)
        else:
            batches = loader(samples, batch, workers, training, seed=options.seed + world.rank)
        found.append(Loaded(samples, batches, classes))
        folders += [samples] if options.data else []
    check_classes(*folders)
    return found[0], found[1]


def check_classes(train: Folder | None = None, held_out: Folder | None = None) -> None:
    """With other folders, a class would have another number in validation."""
    if train and held_out and train.names != held_out.names:
        other = sorted(set(train.names) ^ set(held_out.names))[0]
        raise SystemExit(f"{other}: this class is only in one of train/ and val/: both must have the same folders")


DALI = "gpucluster_train.dali"


def decodes_on_gpu(options: Options, device: torch.device) -> bool:
    if options.synthetic or options.decode == "cpu":
        return False
    dali = importlib.import_module(DALI)
    if options.decode == "gpu" and not dali.available():
        raise SystemExit(dali.loss())
    augments = options.recipe.augment != "none"
    if options.decode == "gpu" and augments:
        raise SystemExit(f"--decode gpu has no {options.recipe.augment}: add --augment none, or choose --decode cpu")
    return options.decode == "gpu" or (device.type == "cuda" and dali.available() and not augments)


def loss(options: Options, device: torch.device) -> str:
    """What a slower way to decode costs, in a line; empty if it is the fastest one."""
    if options.synthetic or decodes_on_gpu(options, device):
        return ""
    lines = [images.loss()]
    if device.type == "cuda" and options.decode == "auto" and options.recipe.augment == "none":
        lines.append(importlib.import_module(DALI).loss())
    return "\n".join(filter(None, lines))


def _samples(options: Options, world: World, *, training: bool, decoded: bool) -> Any:
    recipe, seed, name = options.recipe, options.seed, "train" if training else "val"
    if options.synthetic:
        train, held_out = SYNTHETIC[options.synthetic]
        count, first = (train, 0) if training else (held_out, train)
        return Synthetic(count, recipe, world, seed, training=training, first=first)
    classes = None if options.data else recipe.classes  # a folder has as many as it has folders
    decode = Decode(recipe.image_size, training, augmentation(recipe.augment) if training else None, classes=classes)
    own = decode if decoded else None
    if options.data:
        return Folder(Path(options.data, name), own, world, seed, training=training)
    if training:
        return _counted(Samples(name, decode=own, seed=seed))
    return Samples(name, decode=own, seed=seed, shuffle=0, exact=True)


def _counted(samples: Samples) -> Samples:
    """Raises ChannelError: without a number, ranks would not know when to stop together."""
    try:
        len(samples)
    except TypeError as error:
        raise ChannelError(str(error)) from None
    return samples


def augmentation(name: str) -> Callable[[Tensor], Tensor] | None:
    if name == "none":
        return None
    try:
        from torchvision.transforms import v2
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision is for another torch
        raise SystemExit(
            f"AutoAugment needs torchvision ({error}): add `requirements: [torchvision]` to job.yaml, or leave it out "
            "with --augment none"
        ) from None
    policy: Callable[[Tensor], Tensor] = v2.AutoAugment(interpolation=v2.InterpolationMode.BILINEAR)
    return policy
