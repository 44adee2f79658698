"""ResNet-50 or EfficientNet of keras.applications with TensorFlow, Horovod, half precision and XLA.

gpucluster submit examples/imagenet/resnet50-keras.yaml
python examples/imagenet/train_keras.py resnet50 --synthetic tiny       # one process, anywhere

The loop is written out: model.fit takes its batches inside a compiled function, where nobody sees how long it waits.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import horovod.tensorflow as hvd
import images_keras
import recipes
import tensorflow as tf

from gpucluster_train import log, world
from gpucluster_train.channels import ChannelError
from gpucluster_train.feed import Feed
from gpucluster_train.world import cpus

keras = tf.keras


@dataclass(frozen=True)
class Network:
    make: Callable[..., keras.Model]
    largest: float
    """Value of a colour that it takes: EfficientNet's first layer divides by 255."""
    last_of_tiny: str
    """keras.applications has no narrow networks: a width below 1 stands for the blocks up to this layer."""


MODELS = {
    "resnet50": Network(keras.applications.ResNet50, 1.0, "conv2_block3_out"),
    "efficientnet-b0": Network(keras.applications.EfficientNetB0, 255.0, "block3b_add"),
    "efficientnet-b4": Network(keras.applications.EfficientNetB4, 255.0, "block2b_add"),
}
BATCH_NORM_MOMENTUM = 0.9
"""Keras's 0.99 looks back a hundred steps, and an epoch of 64 ranks has 78."""
POLICIES = {"fp32": "float32", "fp16": "mixed_float16", "bf16": "mixed_bfloat16"}
LOSS_SCALE = 1024.0
LACKS = ("augment autoaugment", "compile", "decode gpu")
XLA, XLA_ON_CPUS = "--tf_xla_auto_jit=2", "--tf_xla_cpu_global_jit"
"""Clusters of operations are compiled, and Horovod's stay between them. With jit_compile=True they would have to be
compiled too, which Horovod 0.28 cannot: No registered 'HorovodAllreduce' OpKernel for XLA_CPU_JIT."""


def prepare() -> tf.config.PhysicalDevice | None:
    """Must come before TensorFlow's first operation. Returns this rank's GPU. TF_XLA_FLAGS="" turns XLA off."""
    has_gpu = os.path.exists("/dev/nvidiactl")  # TensorFlow reads the flags when it looks for devices
    os.environ.setdefault("TF_XLA_FLAGS", XLA if has_gpu else f"{XLA} {XLA_ON_CPUS}")
    os.environ.setdefault("TF_GPU_THREAD_MODE", "gpu_private")
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        share = cpus(os.environ, len(os.sched_getaffinity(0)))
        tf.config.threading.set_intra_op_parallelism_threads(share)
        tf.config.threading.set_inter_op_parallelism_threads(share)
        return None
    own = gpus[hvd.local_rank() % len(gpus)]
    tf.config.set_visible_devices(own, "GPU")
    tf.config.experimental.set_memory_growth(own, True)
    return own


def policy(asked: str, gpu: tf.config.PhysicalDevice | None) -> str:
    """Half precision where the GPU is made for it: bfloat16 needs no loss scale, and V100 has none of it."""
    if asked != "auto":
        return POLICIES[asked]
    if gpu is None:
        return "float32"
    capability = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    return POLICIES["bf16" if capability >= (8, 0) else "fp16"]


def network(model: str, recipe: recipes.Recipe) -> keras.Model:
    kind, shape = MODELS[model], (recipe.image_size, recipe.image_size, 3)
    net = kind.make(weights=None, classes=recipe.classes, input_shape=shape, classifier_activation=None)
    if recipe.width < 1:
        pooled = keras.layers.GlobalAveragePooling2D()(net.get_layer(kind.last_of_tiny).output)
        net = keras.Model(net.input, keras.layers.Dense(recipe.classes)(pooled))
    for layer in net.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = BATCH_NORM_MOMENTUM
        if layer.name.endswith("_3_bn"):  # a block starts as its shortcut alone: large batches train more steadily so
            layer.gamma.assign(tf.zeros_like(layer.gamma))
    return net


def statistics(net: keras.Model) -> list[tf.Variable]:
    """Those of the images that its normalization has seen."""
    return [each for each in net.non_trainable_variables if "/moving_" in each.name]


class Average:
    """The moving average to validate with. The optimizer averages the weights, and this the normalization's statistics:
    those of other weights would not fit the average."""

    def __init__(self, net: keras.Model, optimizer: keras.optimizers.Optimizer, decay: float) -> None:
        self._net, self._optimizer, self._most = net, optimizer, decay
        self._trained = statistics(net)
        self.statistics = [tf.Variable(each, trainable=False) for each in self._trained]
        self.decay = optimizer.ema_momentum = tf.Variable(decay, trainable=False)

    def begin(self, steps: int) -> None:
        """As tf.train.ExponentialMovingAverage: it would else be the random weights of the start for long."""
        self.decay.assign(min(self._most, (2 + steps) / (11 + steps)))

    def follow(self) -> None:
        for average, trained in zip(self.statistics, self._trained, strict=True):
            average.assign(self.decay * average + (1 - self.decay) * trained)

    def into_net(self) -> None:
        """The weights of this rank, which are those of all, and the mean of all ranks' statistics."""
        self._optimizer.finalize_variable_values(self._net.trainable_variables)
        for trained, mean in zip(self._trained, hvd.grouped_allreduce(self.statistics), strict=True):
            trained.assign(mean)


class Training:
    """One rank's model and training state."""

    def __init__(self, options: recipes.Options, gpu: tf.config.PhysicalDevice | None) -> None:
        self.options, self.gpu, self.world = options, gpu, world()
        self.train, self.held_out = images_keras.sources(options, self.world)
        recipe = self.recipe = replace(options.recipe, classes=self.train.classes)
        self.batches = recipe.batches(self.world.size, options.global_batch)
        self.steps = self.batches.steps(self.train.each * self.world.size)
        self.schedule = recipe.schedule(self.batches.learning_rate, self.steps)

        keras.utils.set_random_seed(options.seed)
        keras.mixed_precision.set_global_policy(policy(options.precision, gpu))
        self.net = network(options.model, recipe)
        self.optimizer = make_optimizer(options.model, recipe, scaled=options.compress)
        self.optimizer.build(self.net.trainable_variables)
        self.epochs_done = tf.Variable(0, dtype=tf.int64)
        self.average = Average(self.net, self.inner, recipe.ema_decay) if recipe.ema_decay else None
        parts = {"net": self.net, "optimizer": self.optimizer, "epochs": self.epochs_done}
        if self.average:
            parts["statistics"] = self.average.statistics
        self.checkpoint = tf.train.Checkpoint(**parts)
        self.curves: tf.summary.SummaryWriter | None = None
        # dropout differs between ranks; the weights are those of the first
        keras.utils.set_random_seed(options.seed + self.world.rank)

    @tf.function
    def step(self, pictures: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Its loss. The decay is added to the averaged gradients; biases and normalization are not decayed."""
        inputs, targets = self.mixed(self.normalised(pictures), tf.one_hot(labels, self.recipe.classes))
        with tf.GradientTape() as tape:
            loss = self.loss(self.net(inputs, training=True), targets)
            scaled = self.optimizer.get_scaled_loss(loss) if self.scales else loss
        tape = hvd.DistributedGradientTape(
            tape, compression=hvd.Compression.fp16 if self.options.compress else hvd.Compression.none
        )
        variables = self.net.trainable_variables
        gradients = tape.gradient(scaled, variables)
        if self.scales:
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        decay = self.recipe.weight_decay
        self.optimizer.apply_gradients(
            (gradient + decay * variable if len(variable.shape) > 1 else gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
        )
        if self.average:
            self.average.follow()
        return loss

    @property
    def inner(self) -> keras.optimizers.Optimizer:
        return self.optimizer.inner_optimizer if self.scales else self.optimizer

    @property
    def scales(self) -> bool:
        return isinstance(self.optimizer, keras.mixed_precision.LossScaleOptimizer)

    def mixed(self, inputs: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Each image and its label with another one's (mixup), by a share of Beta(mixup, mixup)."""
        if not self.recipe.mixup:
            return inputs, targets
        one, other = (tf.random.gamma((), self.recipe.mixup) for _ in range(2))
        share = one / (one + other)
        mixed = [share * each + (1 - share) * tf.reverse(each, [0]) for each in (inputs, targets)]
        return mixed[0], mixed[1]

    def loss(self, outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        smooth = self.recipe.label_smoothing
        targets = targets * (1 - smooth) + smooth / self.recipe.classes
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, tf.cast(outputs, tf.float32)))

    def normalised(self, pictures: tf.Tensor) -> tf.Tensor:
        colours = (tf.cast(pictures, tf.float32) / 255 - recipes.MEAN) / recipes.DEVIATION
        return colours * MODELS[self.options.model].largest

    def feed(self, images: images_keras.Images, epoch: int, steps: int = 0) -> Feed:
        return Feed(images_keras.batches(
            images, epoch, self.batches.per_rank, max(1, self.options.workers), steps=steps, gpu=self.gpu is not None
        ))  # fmt: skip

    def epoch(self, number: int) -> tuple[float, float, str]:
        """Mean loss over all ranks, images that all ranks have trained on in a second, and how long they waited."""
        started, total, steps = time.perf_counter(), tf.zeros(()), 0
        feed = self.feed(self.train, number, self.steps)
        with images_keras.faults_named(self.train, number):
            for pictures, labels in feed:
                self.optimizer.learning_rate = self.schedule(number * self.steps + steps)
                if self.average:
                    self.average.begin(number * self.steps + steps)
                total += self.step(pictures, labels)
                steps += 1
        if steps != self.steps:
            raise SystemExit(
                f"rank {self.world.rank} had {steps} of {self.steps} batches in epoch {number + 1}: a shard has fewer "
                "samples than its manifest says, and `gpucluster data verify` finds it"
            )
        mean = float(hvd.allreduce(total / self.steps))
        return mean, self.steps * self.batches.world / (time.perf_counter() - started), feed.report()

    @tf.function
    def hits(self, pictures: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Right guesses, and images; those with the label -1 are none."""
        guesses = tf.argmax(self.net(self.normalised(pictures), training=False), axis=1)
        return tf.stack([tf.reduce_sum(tf.cast(found, tf.int64)) for found in (guesses == labels, labels >= 0)])

    def accuracy(self) -> tuple[float, int]:
        """Top-1 on all held-out images, each looked at by one rank, and how many they are. Ranks may have different
        numbers of batches."""
        self.agree()
        trained, found = [tf.identity(each) for each in self.net.variables], tf.zeros(2, tf.int64)
        if self.average:
            self.average.into_net()
        with images_keras.faults_named(self.held_out, 0):
            for pictures, labels in self.feed(self.held_out, 0):
                found += self.hits(pictures, labels)
        for variable, value in zip(self.net.variables, trained, strict=True):
            variable.assign(value)
        right, count = hvd.allreduce(found, op=hvd.Sum).numpy()
        return float(right / count), int(count)

    def agree(self) -> None:
        """Each rank's normalization has seen other images: all get the mean."""
        own = statistics(self.net)  # EfficientNet has an integer beside them, of which Horovod makes no mean
        for variable, mean in zip(own, hvd.grouped_allreduce(list(own)), strict=True) if own else ():
            variable.assign(mean)

    def check_ranks_agree(self) -> None:
        """All ranks have made the same steps only if every gradient reached every one of them."""
        own = tf.stack([tf.reduce_sum(tf.abs(each)) for each in self.net.trainable_variables])
        tf.debugging.assert_near(own, hvd.allreduce(own), rtol=1e-4, message="gradients were lost: ranks differ")

    def introduction(self) -> str:
        batch = self.batches
        less = "" if self.recipe.augment == "none" else ", without AutoAugment: images are cropped and mirrored only"
        return (
            f"{self.world.size} ranks, batch {batch.per_rank} each, {batch.world} in all, peak learning rate "
            f"{batch.learning_rate:g}, {self.steps} steps an epoch, {keras.mixed_precision.global_policy().name}{less}"
        )

    def tell(self, line: str) -> None:
        if self.world.is_first:
            print(line, flush=True)

    def plot(self, epoch: int, curve: dict[str, float]) -> None:
        """For TensorBoard: in the folder that a job's first rank has, or else beside the checkpoints."""
        folder = os.environ.get("GPUCLUSTER_TENSORBOARD") or self.options.checkpoint
        if folder and self.world.is_first:
            self.curves = self.curves or tf.summary.create_file_writer(folder)
            with self.curves.as_default():
                for name, value in curve.items():
                    tf.summary.scalar(name, value, epoch)
                self.curves.flush()

    def save(self, epochs_done: int) -> None:
        self.epochs_done.assign(epochs_done)
        if self.options.checkpoint and self.world.is_first:
            self.manager().save(epochs_done)

    def load(self) -> int:
        """Epochs done before: 0 without a checkpoint. The first rank reads it and sends it to all, so all go on
        alike."""
        if self.options.checkpoint and self.world.is_first:
            self._restore(self.manager().latest_checkpoint)
        # EfficientNet has constants beside them, in bfloat16 if it computes in it, which Horovod refuses
        state = [*self.net.trainable_variables, *statistics(self.net), *self.optimizer.variables, self.epochs_done]
        state += self.average.statistics if self.average else []
        hvd.broadcast_variables(state, root_rank=0)
        return int(self.epochs_done)

    def _restore(self, path: str | None) -> None:
        """TensorFlow itself would leave what the checkpoint lacks, such as the moving average, as it is."""
        if path is None:
            return
        try:
            self.checkpoint.restore(path).expect_partial().assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.OpError):
            other = "cannot be read, or is of another model, or of other options such as --classes or --ema-decay"
            raise SystemExit(f"{path}: the checkpoint {other}: name another folder, or remove this one") from None

    def manager(self) -> tf.train.CheckpointManager:
        return tf.train.CheckpointManager(self.checkpoint, self.options.checkpoint, max_to_keep=2)


def make_optimizer(model: str, recipe: recipes.Recipe, *, scaled: bool = False) -> keras.optimizers.Optimizer:
    """`scaled`: with a loss scale also where it computes in more bits than gradients travel in."""
    averaged = {"use_ema": True, "ema_momentum": recipe.ema_decay} if recipe.ema_decay else {}
    if model == "resnet50":
        made = keras.optimizers.SGD(recipe.learning_rate, momentum=recipe.momentum, nesterov=True, **averaged)
    else:
        made = keras.optimizers.RMSprop(
            recipe.learning_rate, rho=0.9, epsilon=0.001, momentum=recipe.momentum, **averaged
        )
    if scaled or keras.mixed_precision.global_policy().name == "mixed_float16":
        return keras.mixed_precision.LossScaleOptimizer(made, initial_scale=LOSS_SCALE)
    return made


def train(options: recipes.Options) -> None:
    training = Training(options, prepare())
    epochs, loss, speed = training.recipe.epochs, 0.0, 0.0
    training.tell(training.introduction())
    done = training.load()
    if training.world.is_first:
        recipes.continued(options, done)
    for epoch in range(done, epochs):
        loss, speed, data = training.epoch(epoch)
        recipes.check_loss(loss, epoch + 1)
        training.save(epoch + 1)
        curve, more = {"loss": loss, "images_per_s": speed}, ""
        if options.validate_every and (epoch + 1) % options.validate_every == 0:
            curve["accuracy"], validated = training.accuracy()
            more = f", accuracy {curve['accuracy']:.4f} of {validated} images"
        training.plot(epoch + 1, curve)
        if training.world.is_first:
            log(step=epoch + 1, throughput=speed, **{name: curve[name] for name in curve if name != "images_per_s"})
        training.tell(f"epoch {epoch + 1}/{epochs}: loss {loss:.4f}, {speed:.1f} images/s, {data}{more}")
    training.check_ranks_agree()
    accuracy, validated = training.accuracy()
    found = {"accuracy": round(accuracy, 4), "validated": validated, "loss": round(loss, 4)}
    if training.world.is_first:
        log(step=epochs, accuracy=found["accuracy"])
    training.tell(json.dumps({**found, "images_per_s": round(speed, 1), "world_size": training.world.size}))


if __name__ == "__main__":
    try:
        train(recipes.options(tuple(MODELS), lacks=LACKS))
    except (ChannelError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None
