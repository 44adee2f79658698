"""Data-parallel training in torch: the same few calls for every library."""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from gpucluster_train.world import World

Result = TypeVar("Result")


class Ranks(Protocol):
    world: World
    device: torch.device
    """This rank's own GPU, or the CPU."""

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """All ranks start from the first rank's weights; then each step uses the mean of all gradients."""

    def step(self, loss: Tensor, optimizer: Optimizer, scaler: torch.amp.GradScaler) -> None:
        """Backward pass and update. The scaler does nothing unless it is enabled."""

    def mean(self, value: Tensor) -> Tensor:
        """The mean over all ranks; all ranks must call it."""

    def agree(self, model: nn.Module) -> None:
        """Gives all ranks the first rank's running statistics: each rank has those of its own samples."""


def own_device(world: World) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    number = world.local_rank % torch.cuda.device_count()  # Slurm may show a rank only its own GPU
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


_NEWER = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
_OWN_BUFFERS: dict[str, Any] = {"forward_sync_buffers" if _NEWER else "broadcast_buffers": False}
"""torch 2.13 warns of the older name."""


class Ddp:
    """torch.distributed, over NCCL, Gloo, or SMDDP if that is the launcher."""

    def __init__(self, world: World, device: torch.device, compress: bool = False) -> None:
        self.world, self.device, self._compress = world, device, compress

    @classmethod
    def run(cls, train: Callable[[Ranks], Result], world: World, *, compress: bool = False) -> Result:
        device = own_device(world)
        _join(_backend(world, device), world)
        result = train(cls(world, device, compress))
        dist.barrier()
        dist.destroy_process_group()
        return result

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Buffers are those of each rank until `agree`; gradients have no second copy in DDP's buckets."""
        # Of a 1x1 convolution of channels_last images: strides of a dimension of one, which no kernel reads.
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        own = [self.device] if self.device.type == "cuda" else None
        ddp = DistributedDataParallel(model, device_ids=own, gradient_as_bucket_view=True, **_OWN_BUFFERS)
        if self._compress:
            ddp.register_comm_hook(None, fp16_compress_hook)
        return ddp, optimizer

    def step(self, loss: Tensor, optimizer: Optimizer, scaler: torch.amp.GradScaler) -> None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def mean(self, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total / self.world.size

    def agree(self, model: nn.Module) -> None:
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)


def _backend(world: World, device: torch.device) -> str:
    if world.launcher == "smddp":
        importlib.import_module("smdistributed.dataparallel.torch.torch_smddp")  # the import registers the backend
        return "smddp"
    return "nccl" if device.type == "cuda" else "gloo"


def _join(backend: str, world: World) -> None:
    if world.size == 1 and "MASTER_ADDR" not in os.environ:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group(backend)


def _refuse_another_size(size: int) -> None:
    """A Horovod that does not find its launcher makes each rank a world of its own. Elastic jobs have no fixed size.

    Raises RuntimeError.
    """
    wanted = os.environ.get("WORLD_SIZE")
    if wanted and size != int(wanted) and os.environ.get("HOROVOD_ELASTIC") != "1":
        raise RuntimeError(f"Horovod sees {size} ranks, but the job has {wanted}: the ranks would not train together")


class Horovod:
    def __init__(self, hvd: Any, compress: bool = False) -> None:
        self._hvd = hvd
        self._compression = hvd.Compression.fp16 if compress else hvd.Compression.none
        self.world = World(hvd.rank(), hvd.size(), hvd.local_rank(), os.environ.get("GPUCLUSTER_LAUNCHER", ""))
        self.device = own_device(self.world)

    @classmethod
    def run(cls, train: Callable[[Ranks], Result], *, compress: bool = False) -> Result:
        hvd = importlib.import_module("horovod.torch")
        hvd.init()
        _refuse_another_size(hvd.size())
        result = train(cls(hvd, compress))
        hvd.shutdown()
        return result

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        named = model.named_parameters()
        return model, self._hvd.DistributedOptimizer(optimizer, named_parameters=named, compression=self._compression)

    def step(self, loss: Tensor, optimizer: Any, scaler: torch.amp.GradScaler) -> None:
        scaler.scale(loss).backward()
        optimizer.synchronize()  # before the scaler reads the gradients, so that all ranks see the same ones
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()

    def mean(self, value: Tensor) -> Tensor:
        mean: Tensor = self._hvd.allreduce(value)
        return mean

    def agree(self, model: nn.Module) -> None:
        self._hvd.broadcast_parameters(dict(model.named_buffers()), root_rank=0)
