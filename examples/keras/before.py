"""A small CNN of Keras on handwritten digits, with one GPU or CPU. after.py is the same program with Horovod.

python examples/keras/before.py
"""

from __future__ import annotations

import argparse

import digits
from tensorflow import keras


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a CNN of Keras.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    train, test = digits.made(5000), digits.made(1000, seed=1)
    net = digits.network()
    optimizer = keras.optimizers.SGD(options.learning_rate, momentum=0.9)
    net.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    net.fit(*train, batch_size=options.batch, epochs=options.epochs, verbose=2)
    loss, accuracy = net.evaluate(*test, verbose=0)
    print(f"loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
