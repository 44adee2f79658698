"""Gradient descent for a line through points. Each step is saved; the next run continues after it.

usage: descend.py STEPS SECONDS_PER_STEP
"""

from __future__ import annotations

import json
import os
import sys
import time


def step_from(step: int, a: float, b: float) -> tuple[float, float]:
    x = step % 7
    error = a * x + b - (3 * x + 1)
    return a - 0.02 * error * x, b - 0.02 * error


def main(steps: int, pause_s: float) -> None:
    place = os.path.join(os.environ["GPUCLUSTER_STATE"], "weights.json")
    step, a, b = 0, 0.0, 0.0
    if os.path.exists(place):
        with open(place, encoding="utf-8") as file:
            step, a, b = json.load(file)
    print(f"begins at step {step}", flush=True)
    while step < steps:
        a, b = step_from(step, a, b)
        step += 1
        with open(f"{place}.tmp", "w", encoding="utf-8") as file:
            json.dump([step, a, b], file)
        os.replace(f"{place}.tmp", place)
        time.sleep(pause_s)
    print(f"weights {a} {b}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
