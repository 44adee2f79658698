"""One rank of an all-reduce in the job's framework, started like the job's own ranks: checks the sum and measures the
speed.

Rank 0 prints the result as one line of JSON. Without a known framework it reports that and exits with code 0.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

GPU_BYTES, CPU_BYTES = 2**30, 2**22
WARM_UPS, REPEATS = 3, 10


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    run = chosen()
    if run is None:
        if rank == 0:
            print(json.dumps({"skipped": "neither torch nor Horovod is in the job's environment"}))
        return
    run(rank, world)


def chosen() -> Callable[[int, int], None] | None:
    def there(name: str) -> bool:
        return importlib.util.find_spec(name) is not None

    if os.environ["GPUCLUSTER_LAUNCHER"] == "horovodrun":
        frameworks = {"torch": horovod_torch, "tensorflow": horovod_tensorflow}
        return next((run for name, run in frameworks.items() if there("horovod") and there(name)), None)
    return torch_distributed if there("torch") else None


def torch_distributed(rank: int, world: int) -> None:
    import torch
    import torch.distributed as dist

    device = _torch_device(torch)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend)
    numbers = torch.empty(_bytes(device.type) // 4, device=device)

    def reduce() -> None:
        dist.all_reduce(numbers)

    _measure(rank, world, f"torch, {backend}", numbers, reduce, _synchronize(torch, device))
    dist.barrier()
    dist.destroy_process_group()


def horovod_torch(rank: int, world: int) -> None:
    import horovod.torch as hvd
    import torch

    hvd.init()
    device = _torch_device(torch)
    numbers = torch.empty(_bytes(device.type) // 4, device=device)

    def reduce() -> None:
        hvd.allreduce_(numbers, op=hvd.Sum, name="preflight")

    _measure(rank, hvd.size(), "Horovod with torch", numbers, reduce, _synchronize(torch, device))
    hvd.shutdown()


def horovod_tensorflow(rank: int, world: int) -> None:
    """Only the sum: a measurement with its other functions would count their time as the network's."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    total = hvd.allreduce(tf.fill([1024], float(rank + 1)), op=hvd.Sum)
    _check(float(tf.reduce_min(total)), float(tf.reduce_max(total)), hvd.size())
    if rank == 0:
        print(json.dumps({"framework": "Horovod with TensorFlow", "ranks": hvd.size()}), flush=True)
    hvd.shutdown()


def _torch_device(torch: Any) -> Any:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def _synchronize(torch: Any, device: Any) -> Callable[[], None]:
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def _bytes(device: str) -> int:
    return GPU_BYTES if device == "cuda" else CPU_BYTES


def _measure(
    rank: int, world: int, framework: str, numbers: Any, reduce: Callable[[], None], synchronize: Callable[[], None]
) -> None:
    """Bus bandwidth as nccl-tests defines it: the traffic of each link, whatever the number of ranks."""
    numbers.fill_(float(rank + 1))
    reduce()
    _check(float(numbers.min()), float(numbers.max()), world)
    numbers.zero_()
    for _ in range(WARM_UPS):
        reduce()
    synchronize()
    began = time.perf_counter()
    for _ in range(REPEATS):
        reduce()
    synchronize()
    seconds, size = (time.perf_counter() - began) / REPEATS, numbers.numel() * numbers.element_size()
    if rank == 0:
        speed = size / seconds * 2 * (world - 1) / world / 1e9
        told = {"framework": framework, "ranks": world, "bytes": size, "seconds": seconds, "busbw_gb_per_s": speed}
        print(json.dumps(told), flush=True)


def _check(least: float, most: float, world: int) -> None:
    expected = world * (world + 1) / 2
    if (least, most) != (expected, expected):
        sys.exit(f"an all-reduce over {world} ranks gave numbers from {least:g} to {most:g}, expected {expected:g}")


if __name__ == "__main__":
    main()
