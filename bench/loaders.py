"""Loaders of pictures, one a process: `PYTHON bench/loaders.py NAME FOLDER` prints the CPU milliseconds of an image.

FOLDER is what bench/feed.py makes. Each loader gives training's pictures: a random part at 224 pixels, mirrored at
random. Each has one process, or one thread, that decodes. The way from there to the trainer's process counts; imports
and the first epoch do not. This file runs in Pythons that have neither bench nor gpucluster.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SIZE, BATCH, EPOCHS = 224, 32, 2
Epoch = Callable[[], int]
"""Loads each image once, and returns how many there were."""


def cpu_s() -> float:
    """The CPU seconds of this process and of its living children: a DataLoader's workers live on."""
    ticks = 0
    for tasks in Path("/proc/self/task").glob("*/children"):
        for child in tasks.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime and stime of proc(5)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def counted(batches: Iterable[Any], last: int = 1) -> Epoch:
    return lambda: sum(len(batch[last]) for batch in batches)


def decoding_alone(folder: Path) -> Epoch:
    """The floor: the decoder that ours uses, on one picture after another, and nothing else."""
    from gpucluster_train import images

    encoded = [path.read_bytes() for path in sorted((folder / "photos").rglob("*.jpg"))]
    return lambda: sum(images.pixels(each, "a photo").shape[2] == 3 for each in encoded)


def ours(folder: Path) -> Epoch:
    from gpucluster_train import images
    from gpucluster_train.torch_samples import Samples

    samples = Samples("train", decode=images.Decode(SIZE, training=True), shuffle=64)
    return counted(images.loader(samples, BATCH, 1, training=True))


def ours_by_dali(folder: Path) -> Epoch:
    """On the CPU it also normalises there."""
    import torch

    from gpucluster_train import dali
    from gpucluster_train.torch_samples import Samples

    samples = Samples("train", shuffle=64)
    return counted(dali.Batches(samples, BATCH, SIZE, True, torch.device("cpu"), torch.float32))


def image_folder(folder: Path) -> Epoch:
    """As PyTorch's example imagenet/main.py."""
    from torch.utils.data import DataLoader
    from torchvision import datasets

    data = datasets.ImageFolder(str(folder / "photos"), _transforms())
    return counted(DataLoader(data, BATCH, shuffle=True, num_workers=1, persistent_workers=True))


def _transforms() -> Any:
    from torchvision import transforms

    normal = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    crop = [transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip()]
    return transforms.Compose([*crop, transforms.ToTensor(), normal])


def webdataset(folder: Path) -> Epoch:
    import webdataset as wds
    from torch.utils.data import DataLoader

    shards = sorted(str(path) for path in (folder / "tar").rglob("*.tar"))
    data = wds.WebDataset(shards, shardshuffle=False).shuffle(64).decode("pil").to_tuple("jpg", "cls")
    data = data.map_tuple(_transforms(), int)
    return counted(DataLoader(data, BATCH, num_workers=1, persistent_workers=True))


def dali_alone(folder: Path) -> Epoch:
    """DALI's own reader of files, and bytes as ours."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def pipeline() -> Any:
        encoded, labels = fn.readers.file(file_root=str(folder / "photos"), random_shuffle=True, name="reader")
        pictures = fn.decoders.image_random_crop(encoded, device="cpu")
        pictures = fn.resize(pictures, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.flip(pictures, horizontal=fn.random.coin_flip()), labels

    built = pipeline()
    built.build()
    steps = built.epoch_size("reader") // BATCH
    return lambda: sum(len(built.run()[1]) for _ in range(steps))


def tf_data(folder: Path) -> Epoch:
    """It decodes only the part, with the faster of libjpeg's transforms, as TensorFlow's own ResNet does."""
    import tensorflow as tf

    kinds = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    whole = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])

    def decoded(record: Any) -> Any:
        sample = tf.io.parse_single_example(record, kinds)
        shape = tf.io.extract_jpeg_shape(sample["image/encoded"])
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            shape, whole, area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3), max_attempts=10
        )
        window = tf.concat([begin[:2], extent[:2]], 0)
        part = tf.image.decode_and_crop_jpeg(sample["image/encoded"], window, channels=3, dct_method="INTEGER_FAST")
        picture = tf.image.random_flip_left_right(tf.image.resize(part, (SIZE, SIZE)))
        return tf.cast(picture, tf.uint8), sample["image/class/label"]

    shards = sorted(str(path) for path in (folder / "tfrecord").rglob("*.tfrecord"))
    data = tf.data.TFRecordDataset(shards).shuffle(64).map(decoded, num_parallel_calls=1).batch(BATCH).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    return counted(data.with_options(options))


def image_record_iter(folder: Path) -> Epoch:
    import mxnet as mx

    shards = ";".join(sorted(str(path) for path in (folder / "recordio").rglob("*.rec")))
    iterator = mx.io.ImageRecordIter(
        path_imgrec=shards, data_shape=(3, SIZE, SIZE), batch_size=BATCH, shuffle=True, preprocess_threads=1,
        random_resized_crop=True, min_random_area=0.08, max_random_area=1.0, min_aspect_ratio=3 / 4,
        max_aspect_ratio=4 / 3, rand_mirror=True,
    )  # fmt: skip

    def epoch() -> int:
        iterator.reset()
        return sum(len(batch.label[0].asnumpy()) for batch in iterator)

    return epoch


def tar_reader(folder: Path) -> Epoch:
    """Bytes alone. Several passes: one is too short to measure."""
    from gpucluster_train import tars

    def epoch() -> int:
        count = 0
        for _ in range(20):
            for path in shards:
                with path.open("rb") as stream:
                    count += sum(1 for _ in tars.samples(stream, str(path)))
        return count

    shards = sorted((folder / "tar").rglob("*.tar"))
    return epoch


def tarfile_loop(folder: Path) -> Epoch:
    """Reads each member with Python's tarfile, as webdataset does; two members are an image."""

    def epoch() -> int:
        count = 0
        for path in shards * 4:
            with tarfile.open(fileobj=io.BufferedReader(path.open("rb", buffering=0)), mode="r|") as tar:  # type: ignore[arg-type]
                for member in tar:
                    content = tar.extractfile(member)
                    count += bool(content and content.read()) and member.name.endswith(".jpg")
        return count

    shards = sorted((folder / "tar").rglob("*.tar"))
    return epoch


LOADERS: dict[str, tuple[str, Callable[[Path], Epoch]]] = {
    "decoding alone": ("torch", decoding_alone),
    "gpucluster_train.images": ("torch", ours),
    "gpucluster_train.dali": ("nvidia.dali torch", ours_by_dali),
    "DALI": ("nvidia.dali", dali_alone),
    "torchvision": ("torchvision", image_folder),
    "webdataset": ("webdataset torchvision", webdataset),
    "tf.data": ("tensorflow", tf_data),
    "ImageRecordIter": ("mxnet", image_record_iter),
    "gpucluster_train.tars": ("sys", tar_reader),
    "tarfile": ("sys", tarfile_loop),
}
"""The modules that each needs, and how it makes an epoch."""


def main(name: str, folder: Path) -> None:
    epoch = LOADERS[name][1](folder)
    epoch()
    began = cpu_s()
    images = sum(epoch() for _ in range(EPOCHS))
    print(json.dumps({"ms": 1000 * (cpu_s() - began) / images, "images": images}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
