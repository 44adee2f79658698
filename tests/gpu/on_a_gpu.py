"""Runs a program as a rank, and prints how much memory of a GPU its tensors took. usage: on_a_gpu.py PROGRAM [WORD...]

Ranks share a GPU if there are more of them than GPUs.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys

import torch

COUNT = torch.cuda.device_count()
_set_device = torch.cuda.set_device


def set_device(device: torch.device | int) -> None:
    """Horovod's programs take the number from hvd.local_rank()."""
    _set_device(device % COUNT if isinstance(device, int) else device)


def main() -> None:
    torch.cuda.set_device = set_device
    if "LOCAL_RANK" in os.environ:
        os.environ["LOCAL_RANK"] = str(int(os.environ["LOCAL_RANK"]) % COUNT)
    atexit.register(lambda: print("peak of the GPU memory:", torch.cuda.max_memory_allocated(), flush=True))
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
