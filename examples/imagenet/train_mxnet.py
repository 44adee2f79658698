"""ResNet-50 with MXNet and parameter servers, as in 2018: one process on each node trains on all its GPUs.

gpucluster submit examples/imagenet/resnet50-mxnet.yaml
python examples/imagenet/train_mxnet.py resnet50 --synthetic tiny       # one process, anywhere
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mxnet as mx
import numpy as np
import recipes
from mxnet import autograd, gluon
from mxnet.gluon.data.vision import ImageFolderDataset, transforms
from resnet_mxnet import resnet50

from gpucluster_train import World
from gpucluster_train.mxnet import Scheduler, keep_multipliers

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SYNTHETIC = {"tiny": (512, 128), "full": (1281167, 50000)}


NOISES = 127
"""To choose from: drawn beforehand, or a CPU could not keep up with a GPU. A prime, so that all classes
meet all of them."""


class Synthetic(gluon.data.Dataset):
    """Noise over one coarse picture for each class: easily learned, so that a wrong gradient shows."""

    def __init__(self, count: int, classes: int, size: int, first: int = 0) -> None:
        coarse = np.random.RandomState(0).randn(classes, 3, 4, 4)
        self._pictures = coarse.repeat(size // 4, axis=2).repeat(size // 4, axis=3).astype("float32")
        self._noise = np.random.RandomState(first + 1).randn(NOISES, 3, size, size).astype("float32")
        self._count = count
        self.classes = classes

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int):
        return self._pictures[index % self.classes] + self._noise[index % NOISES], index % self.classes


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


def datasets(options: recipes.Options):
    """To train on, and to validate with; and how many classes they have."""
    size, classes = options.recipe.image_size, options.recipe.classes
    if not options.data:
        train, held_out = SYNTHETIC[options.synthetic]
        return Synthetic(train, classes, size), Synthetic(held_out, classes, size, first=train), classes
    last = [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    random = transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomFlipLeftRight(), *last])
    centre = transforms.Compose([transforms.Resize(size * 8 // 7, keep_ratio=True), transforms.CenterCrop(size), *last])
    train, held_out = (ImageFolderDataset(str(Path(options.data, name))) for name in ("train", "val"))
    return train.transform_first(random), held_out.transform_first(centre), len(train.synsets)


class Training:
    """One worker's."""

    def __init__(self, options: recipes.Options) -> None:
        self.devices = [mx.gpu(number) for number in range(mx.context.num_gpus())] or [mx.cpu()]
        gpus = self.devices[0].device_type == "gpu"
        self.kvstore = mx.kv.create(kind_of_kvstore(gpus))
        self.world = World(self.kvstore.rank, self.kvstore.num_workers)
        train, held_out, classes = datasets(options)
        recipe = self.recipe = replace(options.recipe, classes=classes)
        self.batches = recipe.batches(self.world.size * len(self.devices), options.global_batch)
        self.steps = self.batches.steps(len(train))
        self.share = Share(len(train), self.world, options.seed)
        own, workers = self.batches.per_rank * len(self.devices), 0 if options.synthetic == "tiny" else options.workers
        self.loader = gluon.data.DataLoader(
            train, own, sampler=self.share, last_batch="discard", num_workers=workers, pin_memory=gpus
        )
        self.held_out = gluon.data.DataLoader(held_out, own, num_workers=workers)

        mx.random.seed(options.seed)
        half = options.precision == "fp16" or (options.precision == "auto" and gpus)
        self.dtype = "float16" if half else "float32"
        self.net = resnet50(recipe.classes, recipe.width)
        self.net.initialize(mx.init.MSRAPrelu(), ctx=self.devices)
        self.net.cast(self.dtype)
        self.net.hybridize(static_alloc=True)
        self.trainer = self._trainer(half)

    def _trainer(self, half: bool) -> gluon.Trainer:
        """Biases and normalization are not decayed. The step itself is made by the servers, where there are some."""
        for name, parameter in self.net.collect_params().items():
            if name.endswith(("gamma", "beta", "bias")):
                parameter.wd_mult = 0
        schedule = self.recipe.schedule(self.batches.learning_rate, self.steps)
        settings = {
            "momentum": self.recipe.momentum, "wd": self.recipe.weight_decay, "lr_scheduler": Scheduler(schedule),
            "multi_precision": half,
        }  # fmt: skip
        trainer = gluon.Trainer(self.net.collect_params(), "nag", settings, kvstore=self.kvstore)
        keep_multipliers(trainer)
        return trainer

    def guesses(self, pictures) -> list:
        split = gluon.utils.split_and_load(pictures.astype(self.dtype), self.devices, even_split=False)
        return [self.net(part).astype("float32") for part in split]

    def epoch(self, number: int) -> tuple[float, float]:
        """This worker's mean loss, and images that all workers have trained on in a second."""
        started, total = time.perf_counter(), 0.0
        entropy = gluon.loss.SoftmaxCrossEntropyLoss()
        self.share.epoch = number
        for pictures, labels in self.loader:
            parts = gluon.utils.split_and_load(labels, self.devices, even_split=False)
            with autograd.record():
                losses = [entropy(*each) for each in zip(self.guesses(pictures), parts, strict=True)]
            autograd.backward(losses)
            self.trainer.step(self.batches.world)
            total += sum(float(each.mean().asscalar()) for each in losses) / len(losses)
        return total / self.steps, self.steps * self.batches.world / (time.perf_counter() - started)

    def accuracy(self) -> float:
        """Top-1, on all held-out images."""
        right = count = 0
        for pictures, labels in self.held_out:
            found = np.concatenate([each.argmax(axis=1).asnumpy() for each in self.guesses(pictures)])
            right, count = right + int((found == labels.asnumpy()).sum()), count + len(labels)
        return right / count

    def weights(self) -> float:
        """A sum that two workers share only if they have made the same steps."""
        trained = (each for each in self.net.collect_params().values() if each.grad_req != "null")
        return float(sum(each.data(self.devices[0]).astype("float32").abs().sum().asscalar() for each in trained))


def kind_of_kvstore(gpus: bool) -> str:
    """Servers where the job has some; gradients of one node's GPUs are summed on them first."""
    if "DMLC_ROLE" in os.environ:
        return "dist_sync_device" if gpus else "dist_sync"
    return "device"


def train(options: recipes.Options) -> None:
    training = Training(options)
    world, batch, epochs = training.world, training.batches, training.recipe.epochs
    loss = speed = 0.0
    if world.is_first:
        print(f"{world.size} workers, batch {batch.per_rank} on each device, {batch.world} in all, "
              f"peak learning rate {batch.learning_rate:g}, {training.steps} steps an epoch", flush=True)  # fmt: skip
    for epoch in range(epochs):
        loss, speed = training.epoch(epoch)
        recipes.check_loss(loss, epoch + 1)
        if world.is_first:
            print(f"epoch {epoch + 1}/{epochs}: loss {loss:.4f}, {speed:.1f} images/s", flush=True)
    print(f"weights {training.weights():.4f}", flush=True)
    if world.is_first:
        if options.checkpoint:
            training.net.save_parameters(options.checkpoint)
        found = {"accuracy": round(training.accuracy(), 4), "loss": round(loss, 4), "images_per_s": round(speed, 1)}
        print(json.dumps({**found, "world_size": world.size}), flush=True)


if __name__ == "__main__":
    train(recipes.options(("resnet50",)))
