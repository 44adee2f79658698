"""ImageNet from a job's channels or two folders of JPEGs, or images made up on the spot; for torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy
import torch
from recipes import Options, Recipe
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from gpucluster_train import World, channel, streams, tars
from gpucluster_train.assignment import parts
from gpucluster_train.images import Decode, loader
from gpucluster_train.torch_samples import Samples

SYNTHETIC = {"tiny": (512, 128), "full": (1281167, 50000), "gpu": (1281167, 0)}
"""Images to train on and to validate with; `full` has as many as ImageNet."""
NOISES = 127
"""To choose from: drawn beforehand, or a CPU could not keep up with a GPU. A prime, so that all classes
meet all of them."""
Picture = tuple[Tensor, int]
"""uint8, height x width x 3, and the class's number."""


class Source(Protocol):
    """One rank's batches, uint8 N x H x W x 3 and int64 N: in training as many of them on every rank."""

    classes: int

    def __len__(self) -> int:
        """Batches of an epoch."""

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]: ...


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

    def __iter__(self) -> Iterator[Picture]:
        order = torch.arange(self._count)
        if self._training:
            order = torch.randperm(self._count, generator=torch.Generator().manual_seed(self._seed + int(self._epoch)))
        worker = get_worker_info()
        own = self._own[worker.id :: worker.num_workers] if worker else self._own
        return (self.picture(int(order[place])) for place in own)

    def picture(self, index: int) -> Picture:
        raise NotImplementedError


class Folder(Indexed):
    """CLASS/*.JPEG; classes are numbered in the order of their names."""

    def __init__(self, folder: Path, decode: Decode, world: World, seed: int, *, training: bool) -> None:
        self._folder, self._decode = folder, decode
        self._names = sorted(each.name for each in os.scandir(folder) if each.is_dir()) if folder.is_dir() else []
        # No list: 1.28 million objects of Python would be copied into each worker, which counts their references.
        files = [_files(folder / name) for name in self._names]
        self._files = numpy.concatenate(files) if files else numpy.array([], "S1")
        self._first = numpy.cumsum([0, *map(len, files)])
        if not len(self._files):
            raise SystemExit(f"{folder}: no images; it must hold a folder for each class, with its images")
        self.classes = len(self._names)
        super().__init__(len(self._files), world, seed, training=training)

    def picture(self, index: int) -> Picture:
        label = int(numpy.searchsorted(self._first, index, side="right")) - 1
        path = self._folder / self._names[label] / os.fsdecode(self._files[index])
        return self._decode({"__key__": str(path), "jpg": path.read_bytes(), "cls": b"%d" % label})


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


class Once(IterableDataset):
    """The samples of a channel, each of them on one rank: ranks may have different numbers, unlike those of Samples."""

    def __init__(self, name: str, decode: Decode, world: World) -> None:
        super().__init__()
        own, self._decode = channel(name), decode
        if own.shard == "none":
            mine = parts(own.every, world.size, seed=own.seed, epoch=0)[world.rank]
        elif own.shard == "by-node":
            mine = own.part(0)[world.local_rank :: max(1, world.size // len(own.nodes))]
        else:
            mine = own.part(0)
        self._places = [own.place_of(shard) for shard in mine]

    def __iter__(self) -> Iterator[Picture]:
        worker = get_worker_info()
        places = self._places[worker.id :: worker.num_workers] if worker else self._places
        return map(self._decode, streams.of_places(places, tars.samples))


class Loaded:
    """Batches that the workers of a DataLoader decode."""

    def __init__(self, samples: Any, batch: int, workers: int, *, classes: int, training: bool, seed: int) -> None:
        self.classes, self._samples = classes, samples
        self._batches = loader(samples, batch, workers, training, seed=seed)

    def __len__(self) -> int:
        return len(self._batches)

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        if hasattr(self._samples, "set_epoch"):
            self._samples.set_epoch(number)
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

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        return ((self._pictures, self._labels) for _ in range(self._steps))


def sources(options: Options, world: World, batch: int, device: torch.device) -> tuple[Source, Source]:
    """To train on, and to validate with. `batch`: pictures of a step of one rank. Raises ChannelError."""
    recipe, seed = options.recipe, options.seed
    if options.synthetic == "gpu":
        train, held_out = (count // world.size for count in SYNTHETIC["gpu"])
        return Resident(train, batch, recipe, device), Resident(held_out, batch, recipe, device)
    found = [_samples(options, world, training=training) for training in (True, False)]
    workers = 0 if options.synthetic == "tiny" else options.workers
    train, held_out = (
        Loaded(samples, batch, workers, classes=getattr(samples, "classes", recipe.classes), training=training,
               seed=seed + world.rank)
        for samples, training in zip(found, (True, False), strict=True)
    )  # fmt: skip
    return train, held_out


def _samples(options: Options, world: World, *, training: bool) -> Any:
    recipe, seed, name = options.recipe, options.seed, "train" if training else "val"
    if options.synthetic:
        count, first = SYNTHETIC[options.synthetic][0 if training else 1], 0 if training else SYNTHETIC["tiny"][0]
        return Synthetic(count, recipe, world, seed, training=training, first=first)
    decode = Decode(recipe.image_size, training, augmentation(recipe.augment) if training else None)
    if options.data:
        return Folder(Path(options.data, name), decode, world, seed, training=training)
    return Samples("train", decode=decode, seed=seed) if training else Once("val", decode, world)


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
