"""Images like MNIST's, made on the spot, and a CNN for them."""

from __future__ import annotations

import numpy as np
from tensorflow import keras

SIZE, CLASSES = 28, 10


def made(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """One coarse picture for each class, moved by up to two pixels, with noise; and its number."""
    coarse = np.random.RandomState(7).rand(CLASSES, SIZE // 4, SIZE // 4).repeat(4, axis=1).repeat(4, axis=2)
    random = np.random.RandomState(seed)
    labels = random.randint(CLASSES, size=count)
    moved = [np.roll(coarse[label], random.randint(-2, 3, size=2), (0, 1)) for label in labels]
    pictures = np.stack(moved) + random.randn(count, SIZE, SIZE) * 0.3
    return pictures[..., None].astype("float32"), labels


def network() -> keras.Model:
    layers = keras.layers
    return keras.Sequential([
        layers.Input((SIZE, SIZE, 1)), layers.Conv2D(16, 3, activation="relu"), layers.MaxPool2D(),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPool2D(), layers.Flatten(), layers.Dense(CLASSES),
    ])  # fmt: skip
