"""Images for MXNet: RecordIO of a job's channel, two folders of JPEGs, or images made up on the spot.

RecordIO gives bytes, N x 3 x height x width: the GPU turns them into the network's numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import mxnet as mx
import numpy as np
import recipes
from mxnet import gluon
from mxnet.gluon.data.vision import ImageFolderDataset, transforms

import gpucluster_train
from gpucluster_train import World, whole_shards
from gpucluster_train.channels import S3, Channel, ChannelError

SHUFFLED_MIB = 64
"""The samples of one worker's shards, read and shuffled together."""

Batch = tuple[Any, Any]
"""Pictures and labels, as MXNet's arrays."""


class Images(Protocol):
    classes: int
    each: int
    """Images that every worker has at least, in every epoch."""

    def batches(self, epoch: int, batch: int) -> Iterator[Batch]:
        """The last one may be smaller."""


class Records:
    """RecordIO shards of a channel."""

    def __init__(self, name: str, options: recipes.Options, *, training: bool) -> None:
        self._channel, self._options, self._training = gpucluster_train.channel(name), options, training
        self.classes = options.recipe.classes
        if training:
            self.each = whole_shards.samples_each(self._channel, options.recipe.epochs)
        else:
            self.each = 0
            check_whole(self._channel)

    def batches(self, epoch: int, batch: int) -> Iterator[Batch]:
        """MXNet gives the last batch images of the next round, and says how many: they are cut off."""
        if self._training:
            places, more = whole_shards.places(self._channel, epoch), self._random(epoch)
        else:
            places, more = self._channel.shards(), {"resize": self._options.recipe.image_size * 8 // 7}
        if any(place.startswith(S3) for place in places):
            name = self._channel.name
            raise ChannelError(f"channel {name}: MXNet cannot read from S3: give it mode: copy instead of stream")
        size = self._options.recipe.image_size
        # A list of .rec works without their .idx only: "IndexedRecordIOSplitter does not support multiple files"
        reader = mx.io.ImageRecordIter(
            path_imgrec=";".join(places), data_shape=(3, size, size), batch_size=batch, dtype="uint8",
            preprocess_threads=max(1, self._options.workers),  # at most half of the CPUs, less one: MXNet's own limit
            verbose=False, **more,
        )  # fmt: skip
        for found in reader:
            count = batch - found.pad
            yield found.data[0][:count], found.label[0][:count]

    def _random(self, epoch: int) -> dict[str, Any]:
        """Another order and other crops in each epoch."""
        seed = self._options.seed + epoch
        return {
            "shuffle": True, "shuffle_chunk_size": SHUFFLED_MIB, "shuffle_chunk_seed": seed, "seed": seed,
            "seed_aug": seed, "random_resized_crop": True, "min_random_area": 0.08, "max_random_area": 1.0,
            "min_aspect_ratio": 3 / 4, "max_aspect_ratio": 4 / 3, "rand_mirror": True,
        }  # fmt: skip


def check_whole(channel: Channel) -> None:
    """The first worker validates alone. Raises ChannelError if it would see only a part."""
    if channel.shard != "none" and channel.world.size > 1:
        raise ChannelError(
            f"channel {channel.name}: MXNet's first worker validates with all images, and shard: {channel.shard} gives "
            "it a part of them: write shard: none"
        )


class Loaded:
    """A data set of gluon."""

    def __init__(self, dataset: Any, classes: int, options: recipes.Options, world: World | None) -> None:
        """`world`: to train with the images of this worker; None: all images, in order."""
        self.classes, self.each = classes, len(dataset) // (world.size if world else 1)
        self._dataset, self._options = dataset, options
        self._share = Share(len(dataset), world, options.seed) if world else None

    def batches(self, epoch: int, batch: int) -> Iterator[Batch]:
        workers = 0 if self._options.synthetic == "tiny" else self._options.workers
        if self._share:
            self._share.epoch = epoch
        yield from gluon.data.DataLoader(
            self._dataset, batch, sampler=self._share, num_workers=workers, pin_memory=mx.context.num_gpus() > 0
        )


class Synthetic(gluon.data.Dataset):
    """Noise over one coarse picture for each class: easily learned, so that a wrong gradient shows."""

    def __init__(self, count: int, classes: int, size: int, first: int = 0) -> None:
        coarse = np.random.RandomState(0).randn(classes, 3, 4, 4)
        self._pictures = coarse.repeat(size // 4, axis=2).repeat(size // 4, axis=3).astype("float32")
        self._noise = np.random.RandomState(first + 1).randn(recipes.NOISES, 3, size, size).astype("float32")
        self._count = count
        self.classes = classes

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int):
        return self._pictures[index % self.classes] + self._noise[index % recipes.NOISES], index % self.classes


class Share(gluon.data.Sampler):
    """This worker's samples, newly shuffled each epoch and in the same order on all workers before they part."""

    def __init__(self, count: int, world: World, seed: int) -> None:
        self._count, self._world, self._seed = count, world, seed
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._world.share(self._count))

    def __iter__(self) -> Iterator[int]:
        order = np.random.RandomState(self._seed + self.epoch).permutation(self._count)
        return iter(order[list(self._world.share(self._count))].tolist())


def sources(options: recipes.Options, world: World) -> tuple[Images, Images]:
    """To train on, and to validate with."""
    size, classes = options.recipe.image_size, options.recipe.classes
    if options.synthetic:
        train, held_out = recipes.SYNTHETIC[options.synthetic]
        return (Loaded(Synthetic(train, classes, size), classes, options, world),
                Loaded(Synthetic(held_out, classes, size, first=train), classes, options, None))  # fmt: skip
    if not options.data:
        return Records("train", options, training=True), Records("val", options, training=False)
    last = [transforms.ToTensor(), transforms.Normalize(recipes.MEAN, recipes.DEVIATION)]
    random = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomFlipLeftRight(), *last])
    centre = transforms.Compose([transforms.Resize(size * 8 // 7, keep_ratio=True), transforms.CenterCrop(size), *last])
    train, held_out = (ImageFolderDataset(str(Path(options.data, name))) for name in ("train", "val"))
    classes = len(train.synsets)
    return (Loaded(train.transform_first(random), classes, options, world),
            Loaded(held_out.transform_first(centre), classes, options, None))  # fmt: skip


def batches(images: Images, epoch: int, batch: int, steps: int) -> Iterator[Batch]:
    """`steps` full batches to train on."""
    return islice(images.batches(epoch, batch), steps)
