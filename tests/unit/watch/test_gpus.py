"""The sampler's GPUs: a driver that hangs, and one that is loaded later."""

from __future__ import annotations

import threading
import time
from typing import Any

from gpucluster_node.watch.gpus import Gpus
from gpucluster_node.watch.nvml import Gpu, NvmlError


class Hanging:
    """NVML, which answers only while it is let to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()

    def read(self) -> list[Gpu]:
        self.answers.wait(60)
        time.sleep(0.05)  # eight GPUs take some
        return [Gpu(0, 0, util_percent=100)]


def test_a_driver_that_hangs_stops_no_other_sample() -> None:
    nvml: Any = Hanging()
    gpus = Gpus(lambda: nvml, wait_s=2.0)
    assert gpus.read() == [Gpu(0, 0, util_percent=100)]
    nvml.answers.clear()
    began = time.monotonic()
    for _ in range(100):
        assert gpus.read() == [], "old values would look like new ones"
    assert time.monotonic() - began < 30, "waits only once"
    assert sum(thread.name == "nvml" for thread in threading.enumerate()) == 1
    nvml.answers.set()
    while not gpus.read():
        assert time.monotonic() - began < 60
        time.sleep(0.01)
    assert [len(gpus.read()) for _ in range(5)] == [1] * 5


def test_a_driver_that_is_loaded_later_is_found() -> None:
    tried: list[float] = []

    def opened() -> Any:
        tried.append(time.monotonic())
        if len(tried) < 3:
            raise NvmlError("nvmlInit_v2 failed")
        return Hanging()

    seldom = Gpus(opened, again_s=3600)
    assert [seldom.read() for _ in range(9)] == [[]] * 9 and len(tried) == 1
    soon = Gpus(opened, wait_s=30, again_s=0)
    assert [len(soon.read()) for _ in range(3)] == [0, 1, 1]
    assert len(tried) == 3, "opened once"
