"""What the examples learn: the weights of a linear teacher, from its answers to random questions."""

from __future__ import annotations

import json

import numpy as np

FEATURES = 16
STEPS = 200
BATCH = 32
LEARNING_RATE = 0.1
WEIGHTS = np.linspace(-1.0, 1.0, FEATURES, dtype="float32").reshape(FEATURES, 1)


def batch(random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    questions = random.randn(BATCH, FEATURES).astype("float32")
    return questions, questions @ WEIGHTS


def error(learned: np.ndarray) -> float:
    """The largest difference from a weight of the teacher."""
    return float(np.abs(learned.reshape(-1, 1) - WEIGHTS).max())


def report(**facts: object) -> None:
    print(json.dumps(facts), flush=True)
