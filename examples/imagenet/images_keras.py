"""Images for TensorFlow: TFRecords of a job's channel, two folders of JPEGs, or images made up on the spot.

Batches are bytes, N x height x width x 3: the GPU turns them into the network's numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import recipes
import tensorflow as tf

import gpucluster_train
from gpucluster_train import World, streams, tfrecords, whole_shards
from gpucluster_train.channels import S3

SHUFFLED = 4096
"""Encoded images to choose the next one from: about 450 MB of ImageNet for each rank."""
PIECE_BYTES = 8 << 20
"""Network file systems and S3 answer large reads best (tensorflow.org/guide/data_performance says 8 MB)."""
FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64, -1),
    "image/filename": tf.io.FixedLenFeature([], tf.string, ""),
}
"""As `gpucluster data shard --format tfrecord` writes them."""


class Images(Protocol):
    classes: int
    each: int
    """Images that every rank has at least, in every epoch."""

    def pictures(self, epoch: int) -> tf.data.Dataset:
        """This rank's, as (bytes, label)."""


class Encoded:
    """JPEGs with labels and names."""

    def __init__(self, classes: int, size: int, seed: int, *, training: bool) -> None:
        self.classes, self._size, self._seed, self._training = classes, size, seed, training

    def encoded(self, epoch: int) -> tf.data.Dataset:
        """(JPEG, label, name) of this rank's images."""
        raise NotImplementedError

    def pictures(self, epoch: int) -> tf.data.Dataset:
        data = self.encoded(epoch)
        if self._training:
            data = data.shuffle(SHUFFLED, seed=self._seed + epoch)
        return data.enumerate().map(lambda number, image: self._decoded(*image, (epoch, number)), tf.data.AUTOTUNE)

    def _decoded(self, jpeg: tf.Tensor, label: tf.Tensor, name: tf.Tensor, place: tuple) -> tuple[tf.Tensor, tf.Tensor]:
        """A wrong label would train a class that is not there, or on GPUs make the loss NaN."""
        tf.debugging.Assert((label >= 0) & (label < self.classes), [name, label])
        jpeg = as_jpeg(jpeg)
        shape = tf.io.extract_jpeg_shape(jpeg)
        if not self._training:
            return self._cut(jpeg, centre(shape)), label
        seed = tf.stack([self._seed + (place[0] << 32), tf.cast(place[1], tf.int64)])
        picture = self._cut(jpeg, part(shape, seed))
        # Philox's integers: its floats, and the default algorithm, are others where XLA compiles them
        mirrored = tf.random.stateless_uniform((), seed, None, None, tf.int32, alg="philox") < 0
        return tf.where(mirrored, tf.reverse(picture, [1]), picture), label

    def _cut(self, jpeg: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Decodes no more than the window."""
        picture = tf.io.decode_and_crop_jpeg(jpeg, window, channels=3, dct_method="INTEGER_FAST")
        picture = tf.image.resize(picture, (self._size, self._size))
        return tf.cast(tf.round(picture), tf.uint8)

    def fault(self, epoch: int) -> str:
        """The first image of this rank that cannot be used, and why; or the shard that cannot be read."""
        try:
            for jpeg, label, name in self.encoded(epoch):
                where = name.numpy().decode(errors="replace")
                if not 0 <= label < self.classes:
                    return f"{where}: its label is {label} (-1: none), and must be from 0 to {self.classes - 1}"
                try:
                    self._decoded(jpeg, label, name, (epoch, 0))
                except tf.errors.InvalidArgumentError as error:
                    return f"{where}: cannot be decoded: {said(error)}"
        except tf.errors.OpError as error:
            return f"a shard of this rank cannot be read: {said(error)}; `gpucluster data verify` checks all"
        return ""


def as_jpeg(image: tf.Tensor) -> tf.Tensor:
    """Only of a JPEG can a part be decoded. ImageNet has one PNG, n02105855_2933.JPEG."""
    return tf.cond(
        tf.io.is_jpeg(image),
        lambda: image,
        lambda: tf.io.encode_jpeg(tf.io.decode_image(image, channels=3, expand_animations=False)),
    )


def part(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A part of 8 to 100 % of the image, up to a third wider or higher than square."""
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape, tf.constant([[[0.0, 0.0, 1.0, 1.0]]]), seed, min_object_covered=0.0, aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0), max_attempts=10, use_image_if_no_bounding_boxes=True,
    )  # fmt: skip
    return tf.stack([begin[0], begin[1], extent[0], extent[1]])


def centre(shape: tf.Tensor) -> tf.Tensor:
    """The largest square's inner 7/8."""
    side = tf.maximum(1, tf.minimum(shape[0], shape[1]) * 7 // 8)
    return tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])


class Shards(Encoded):
    """TFRecords of a channel. Each rank reads its own shards; what one has more than another, it leaves out."""

    def __init__(self, name: str, options: recipes.Options, *, training: bool) -> None:
        super().__init__(options.recipe.classes, options.recipe.image_size, options.seed, training=training)
        self._channel = gpucluster_train.channel(name)
        self.each = whole_shards.samples_each(self._channel, options.recipe.epochs) if training else 0

    def encoded(self, epoch: int) -> tf.data.Dataset:
        places = whole_shards.places(self._channel, epoch)
        return records(places).map(parsed, tf.data.AUTOTUNE)


def records(places: list[str]) -> tf.data.Dataset:
    if any(place.startswith(S3) for place in places):
        signature = tf.TensorSpec((), tf.string)
        found = tf.data.Dataset.from_generator(
            lambda: streams.of_places(places, tfrecords.records), output_signature=signature
        )
        return found.prefetch(SHUFFLED // 16)
    data = tf.data.Dataset.from_tensor_slices(tf.constant(places, tf.string, shape=[len(places)]))
    return data.interleave(
        lambda place: tf.data.TFRecordDataset(place, buffer_size=PIECE_BYTES),
        cycle_length=max(1, min(len(places), 8)), block_length=16, num_parallel_calls=tf.data.AUTOTUNE,
    )  # fmt: skip


def parsed(record: tf.Tensor) -> tuple[tf.Tensor, ...]:
    example = tf.io.parse_single_example(record, FEATURES)
    return tuple(example[name] for name in FEATURES)


class Folder(Encoded):
    """CLASS/*.JPEG; classes are numbered in the order of their names."""

    def __init__(self, folder: Path, options: recipes.Options, world: World, *, training: bool) -> None:
        classes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        files = [(str(path), number) for number, each in enumerate(classes) for path in sorted(each.iterdir())]
        if not files:
            raise SystemExit(f"{folder}: no images; it must hold a folder for each class, with its images")
        super().__init__(len(classes), options.recipe.image_size, options.seed, training=training)
        self._files, self._labels = (np.array(each) for each in zip(*files, strict=True))
        self._world = world
        self.each = len(files) // world.size

    def encoded(self, epoch: int) -> tf.data.Dataset:
        order = np.arange(len(self._files))
        if self._training:
            np.random.RandomState(self._seed + epoch).shuffle(order)
        own = order[self._world.rank :: self._world.size]
        data = tf.data.Dataset.from_tensor_slices((self._files[own], self._labels[own]))
        return data.map(lambda file, label: (tf.io.read_file(file), label, file), tf.data.AUTOTUNE)


@dataclass(frozen=True)
class Synthetic:
    """Noise over one coarse picture for each class: easily learned, so that a wrong gradient shows."""

    count: int
    classes: int
    size: int
    world: World
    first: int = 0

    @property
    def each(self) -> int:
        return self.count // self.world.size

    def pictures(self, epoch: int) -> tf.data.Dataset:
        coarse = np.random.RandomState(0).randn(self.classes, 4, 4, 3)
        fine = coarse.repeat(-(-self.size // 4), axis=1).repeat(-(-self.size // 4), axis=2)
        noise = np.random.RandomState(self.first + 1).randn(recipes.NOISES, self.size, self.size, 3)
        scaled = tf.constant(fine[:, : self.size, : self.size] * 40, tf.int16), tf.constant(noise * 40, tf.int16)

        def made(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            label = number % self.classes
            picture = 118 + scaled[0][label] + scaled[1][number % recipes.NOISES]
            return tf.cast(tf.clip_by_value(picture, 0, 255), tf.uint8), label

        numbers = tf.data.Dataset.range(self.count).shard(self.world.size, self.world.rank)
        return numbers.shuffle(SHUFFLED, seed=epoch).map(made, tf.data.AUTOTUNE)


def batches(images: Images, epoch: int, batch: int, cpus: int, *, steps: int = 0, gpu: bool) -> tf.data.Dataset:
    """`steps` full batches to train on. With 0 steps all images, the last batch filled with labels of -1: another
    size would be compiled again."""
    data = images.pictures(epoch)
    if not steps:
        blank = tf.zeros(data.element_spec[0].shape, tf.uint8), tf.constant(-1, data.element_spec[1].dtype)
        data = data.concatenate(tf.data.Dataset.from_tensors(blank).repeat(batch - 1))
    data = data.batch(batch, drop_remainder=True)
    options = tf.data.Options()
    options.threading.private_threadpool_size = cpus  # of all ranks' pools, none takes another's
    data = (data.take(steps) if steps else data).with_options(options)
    if gpu:
        return data.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))
    return data.prefetch(2)


@contextmanager
def faults_named(images: Images, epoch: int) -> Iterator[None]:
    """Ends the program with the image that TensorFlow could not use: its own error does not name it."""
    try:
        yield
    except tf.errors.OpError as error:
        fault = images.fault(epoch) if isinstance(images, Encoded) else ""
        raise SystemExit(f"error: epoch {epoch + 1}: {fault or error.message}") from None


def said(error: tf.errors.OpError) -> str:
    """Without the names of nodes in TensorFlow's graph."""
    return re.sub(r"\{\{[^}]*\}\} ?| \[Op:.*", "", error.message.splitlines()[0])


def sources(options: recipes.Options, world: World) -> tuple[Images, Images]:
    """To train on, and to validate with."""
    if options.data:
        train, held_out = (Folder(Path(options.data, name), options, world, training=name == "train")
                           for name in ("train", "val"))  # fmt: skip
        return train, held_out
    if options.synthetic:
        count, held_out_count = recipes.SYNTHETIC[options.synthetic]
        classes, size = options.recipe.classes, options.recipe.image_size
        return (Synthetic(count, classes, size, world),
                Synthetic(held_out_count, classes, size, world, first=count))  # fmt: skip
    return Shards("train", options, training=True), Shards("val", options, training=False)
