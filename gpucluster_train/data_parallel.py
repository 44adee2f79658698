"""Data-parallel training in torch: the same few calls for every library."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
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


class Ddp:
    """torch.distributed, over NCCL, Gloo, or SMDDP if that is the launcher."""

    def __init__(self, world: World, device: torch.device) -> None:
        self.world, self.device = world, device

    @classmethod
    def run(cls, train: Callable[[Ranks], Result], world: World) -> Result:
        device = own_device(world)
        _join(_backend(world, device), world)
        result = train(cls(world, device))
        dist.barrier()
        dist.destroy_process_group()
        return result

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        own = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=own), optimizer

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
    def __init__(self, hvd: Any) -> None:
        self._hvd = hvd
        self.world = World(hvd.rank(), hvd.size(), hvd.local_rank(), os.environ.get("GPUCLUSTER_LAUNCHER", ""))
        self.device = own_device(self.world)

    @classmethod
    def run(cls, train: Callable[[Ranks], Result]) -> Result:
        hvd = importlib.import_module("horovod.torch")
        hvd.init()
        _refuse_another_size(hvd.size())
        result = train(cls(hvd))
        hvd.shutdown()
        return result

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, self._hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

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
