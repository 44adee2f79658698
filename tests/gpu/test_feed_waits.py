"""gpucluster_train.feed on a real GPU, whose own events tell how long it had nothing to do."""

from __future__ import annotations

import os
import subprocess

from gpu.conftest import ROOT, torch_python

PROGRAM = """
import sys, time, torch
from gpucluster_train.feed import Feed

square = torch.rand(4096, 4096, device="cuda")

def work(times):
    for _ in range(times):
        torch.matmul(square, square)

work(10)
torch.cuda.synchronize()
began = time.perf_counter()
work(100)
torch.cuda.synchronize()
step_s = (time.perf_counter() - began) / 100
steps = max(1, round(0.05 / step_s))

def batches(seconds):
    for number in range(40):
        time.sleep(seconds)
        yield number

for loading in (0.5, 2.0):
    feed = Feed(batches(loading * steps * step_s))
    for _ in feed:
        work(steps)
    torch.cuda.synchronize()
    print(feed.share)
"""


def test_a_wait_counts_only_while_the_gpu_has_nothing_to_do() -> None:
    """The program itself spends nearly all of its time in the loader, in both cases."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [torch_python(), "-c", PROGRAM]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    twice_as_fast, half_as_fast = map(float, done.stdout.split())
    assert twice_as_fast < 0.1
    assert 0.4 < half_as_fast < 0.6
