"""ResNet-50 with MXNet and parameter servers, as in 2018: one process on each node trains on all its GPUs.

gpucluster submit examples/imagenet/resnet50-mxnet.yaml
python examples/imagenet/train_mxnet.py resnet50 --synthetic tiny       # one process, anywhere
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from dataclasses import replace
from typing import Any

import images_mxnet
import mxnet as mx
import numpy as np
import recipes
from mxnet import autograd, gluon
from resnet_mxnet import resnet50

from gpucluster_train import World, log
from gpucluster_train.channels import ChannelError
from gpucluster_train.feed import Feed
from gpucluster_train.mxnet import Scheduler, keep_multipliers

EPOCHS = "epochs"
"""In a checkpoint, beside the network's weights."""
AHEAD = 2
"""Steps that the program hands over before it waits for the first of them: the GPUs are never idle, and their memory
never fills with batches."""
LACKS = (
    "augment autoaugment", "compile", "compress", "decode gpu", "ema_decay", "label_smoothing", "mixup",
    "precision bf16",
)  # fmt: skip


class Training:
    """One worker's."""

    def __init__(self, options: recipes.Options) -> None:
        self.devices = [mx.gpu(number) for number in range(mx.context.num_gpus())] or [mx.cpu()]
        gpus = self.devices[0].device_type == "gpu"
        self.kvstore = mx.kv.create(kind_of_kvstore(gpus))
        self.world = World(self.kvstore.rank, self.kvstore.num_workers)
        self.colours = {device: colours(device) for device in self.devices}
        self.train, self.held_out = images_mxnet.sources(options, self.world)
        recipe = self.recipe = replace(options.recipe, classes=self.train.classes)
        self.batches = recipe.batches(self.world.size * len(self.devices), options.global_batch)
        self.own = self.batches.per_rank * len(self.devices)
        self.steps = self.batches.steps(self.train.each * self.world.size)

        mx.random.seed(options.seed)
        half = options.precision == "fp16" or (options.precision == "auto" and gpus)
        self.dtype = "float16" if half else "float32"
        self.layout = "NHWC" if gpus else "NCHW"
        self.net = resnet50(recipe.classes, recipe.width, self.layout)
        self.net.initialize(mx.init.MSRAPrelu(), ctx=self.devices)
        self.net.cast(self.dtype)
        self.net.hybridize(static_alloc=True)
        self.checkpoint = options.checkpoint
        self.epochs_done = self._load()
        self.trainer = self._trainer(half)

    def _trainer(self, half: bool) -> gluon.Trainer:
        """Biases and normalization are not decayed. The step itself is made by the servers, where there are some."""
        for name, parameter in self.net.collect_params().items():
            if name.endswith(("gamma", "beta", "bias")):
                parameter.wd_mult = 0
        schedule = self.recipe.schedule(self.batches.learning_rate, self.steps)
        settings = {
            "momentum": self.recipe.momentum, "wd": self.recipe.weight_decay, "lr_scheduler": Scheduler(schedule),
            "multi_precision": half, "begin_num_update": self.epochs_done * self.steps,
        }  # fmt: skip
        trainer = gluon.Trainer(self.net.collect_params(), "nag", settings, kvstore=self.kvstore)
        keep_multipliers(trainer)
        return trainer

    def save(self, epochs_done: int) -> None:
        """Only the first worker does: the file is always complete, because a newer one takes its place."""
        weights = {name: each._reduce() for name, each in self.net._collect_params_with_prefix().items()}
        try:
            mx.nd.save(f"{self.checkpoint}.new", {**weights, EPOCHS: mx.nd.array([epochs_done])})
            os.replace(f"{self.checkpoint}.new", self.checkpoint)
        except (OSError, mx.MXNetError) as error:
            why = str(error).strip().splitlines()[-1]  # MXNet's begins with a traceback of its own
            raise SystemExit(f"{self.checkpoint}: the checkpoint cannot be written: {why}") from None

    def _load(self) -> int:
        """Epochs done before: 0 without a checkpoint. Every worker reads the file, so all go on alike. Momentum starts
        from zero: servers keep it, and MXNet does not save it there."""
        if not self.checkpoint or not os.path.exists(self.checkpoint):
            return 0
        try:
            done = int(mx.nd.load(self.checkpoint)[EPOCHS].asscalar())
            self.net.load_parameters(self.checkpoint, ctx=self.devices, ignore_extra=True, cast_dtype=True)
        except (AssertionError, KeyError, TypeError, ValueError, mx.MXNetError):
            other = "is no complete checkpoint of this program, or of another --width or --classes"
            raise SystemExit(f"{self.checkpoint}: {other}: name another file, or remove this one") from None
        return done

    def guesses(self, pictures: Any) -> list[Any]:
        split = gluon.utils.split_and_load(pictures, self.devices, even_split=False)
        return [self.net(self.prepared(part)).astype("float32") for part in split]

    def prepared(self, pictures: Any) -> Any:
        """On their device: bytes are normalised, numbers are so already."""
        if pictures.dtype == np.uint8:
            mean, deviation = self.colours[pictures.context]
            pictures = (pictures.astype("float32") - mean) / deviation
        pictures = pictures.astype(self.dtype)
        return pictures.transpose((0, 2, 3, 1)) if self.layout == "NHWC" else pictures

    def epoch(self, number: int) -> tuple[float, float, str]:
        """This worker's mean loss, images that all workers have trained on in a second, and how long it waited."""
        started, steps = time.perf_counter(), 0
        totals = [mx.nd.zeros((1,), device) for device in self.devices]
        ahead = deque[Any]()
        feed = Feed(lambda: images_mxnet.batches(self.train, number, self.own, self.steps))
        for pictures, labels in feed:
            losses = self.step(pictures, labels)
            for total, loss in zip(totals, losses, strict=True):
                total += loss
            ahead.append(losses[0])
            if len(ahead) > AHEAD:
                ahead.popleft().wait_to_read()
            steps += 1
        if steps != self.steps:
            raise SystemExit(
                f"worker {self.world.rank} had {steps} of {self.steps} batches in epoch {number + 1}: a shard has "
                "fewer images than its manifest says, and `gpucluster data verify` finds it"
            )
        mean = sum(float(total.asscalar()) for total in totals) / len(totals) / self.steps
        return mean, self.steps * self.batches.world / (time.perf_counter() - started), feed.report()

    def step(self, pictures: Any, labels: Any) -> list[Any]:
        """The losses of this worker's devices, on them: to fetch a number here would wait for the step's end."""
        entropy = gluon.loss.SoftmaxCrossEntropyLoss()
        parts = gluon.utils.split_and_load(labels, self.devices, even_split=False)
        with autograd.record():
            losses = [entropy(*each) for each in zip(self.guesses(pictures), parts, strict=True)]
        autograd.backward(losses)
        self.trainer.step(self.batches.world)
        return [each.mean() for each in losses]

    def accuracy(self) -> tuple[float, int]:
        """Top-1 on all held-out images, and how many they are."""
        right = count = 0
        for pictures, labels in self.held_out.batches(0, self.own):
            found = np.concatenate([each.argmax(axis=1).asnumpy() for each in self.guesses(pictures)])
            right, count = right + int((found == labels.asnumpy()).sum()), count + len(labels)
        return right / count, count

    def weights(self) -> float:
        """A sum that two workers share only if they have made the same steps."""
        trained = (each for each in self.net.collect_params().values() if each.grad_req != "null")
        return float(sum(each.data(self.devices[0]).astype("float32").abs().sum().asscalar() for each in trained))


def colours(device: mx.Context) -> list[Any]:
    """The mean and the deviation of bytes, to be subtracted from and to divide N x 3 x height x width."""
    found = ([255 * each for each in of] for of in (recipes.MEAN, recipes.DEVIATION))
    return [mx.nd.array(each, device).reshape((1, 3, 1, 1)) for each in found]


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
        recipes.continued(options, training.epochs_done)
    for epoch in range(training.epochs_done, epochs):
        loss, speed, data = training.epoch(epoch)
        recipes.check_loss(loss, epoch + 1)
        if world.is_first:  # the others wait in their next step, for this one's gradients
            if options.checkpoint:
                training.save(epoch + 1)
            reached, more = "", {}
            if options.validate_every and (epoch + 1) % options.validate_every == 0 and epoch + 1 < epochs:
                more["accuracy"], validated = training.accuracy()
                reached = f", accuracy {more['accuracy']:.4f} of {validated} images"
            log(step=epoch + 1, loss=loss, throughput=speed, **more)
            print(f"epoch {epoch + 1}/{epochs}: loss {loss:.4f}, {speed:.1f} images/s, {data}{reached}", flush=True)
    print(f"weights {training.weights():.4f}", flush=True)
    if world.is_first:
        accuracy, validated = training.accuracy()
        found = {"accuracy": round(accuracy, 4), "validated": validated, "loss": round(loss, 4)}
        log(step=epochs, accuracy=found["accuracy"])
        print(json.dumps({**found, "images_per_s": round(speed, 1), "world_size": world.size}), flush=True)


if __name__ == "__main__":
    try:
        train(recipes.options(("resnet50",), lacks=LACKS))
    except (ChannelError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None
