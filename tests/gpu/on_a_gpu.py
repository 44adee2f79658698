"""Runs a program as a rank, and prints how much memory of a GPU its tensors took. usage: on_a_gpu.py PROGRAM [WORD...]

Ranks share a GPU if there are more of them than GPUs. The kernels are deterministic, so that a resumed run can be
compared with a whole one: on an H100, five runs of the torchvision recipe without this had losses from 0.06 to 5.3
after three epochs. Attention's backward is not: with warn_only, torch keeps its faster kernel.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys

# cuBLAS reads it when it starts (torch.use_deterministic_algorithms).
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402

COUNT = torch.cuda.device_count()
_set_device = torch.cuda.set_device


def set_device(device: torch.device | int) -> None:
    """Horovod's programs take the number from hvd.local_rank()."""
    _set_device(device % COUNT if isinstance(device, int) else device)


def main() -> None:
    torch.cuda.set_device = set_device
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # NaN in buffers that a program never reads
    if "LOCAL_RANK" in os.environ:
        os.environ["LOCAL_RANK"] = str(int(os.environ["LOCAL_RANK"]) % COUNT)
    atexit.register(lambda: print("peak of the GPU memory:", torch.cuda.max_memory_allocated(), flush=True))
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
