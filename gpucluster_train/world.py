"""Who this process is among the processes of its job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# RANK and its like are what a GpuCluster job tells every rank, and what torchrun tells. The others serve a program that
# is started by the bare launcher, without a job around it.
_NAMES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
)


@dataclass(frozen=True)
class World:
    rank: int = 0
    size: int = 1
    """Ranks on all nodes together."""
    local_rank: int = 0
    """On this node: the number of the GPU that is this rank's."""
    launcher: str = ""
    """The job's, such as torchrun; empty outside a job."""

    @property
    def is_first(self) -> bool:
        """The one that reports and writes files."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Which of `count` samples are this rank's: every size-th, as many on all ranks. A remainder is left out."""
        return range(self.rank, count - count % self.size, self.size)


def world(environment: Mapping[str, str] | None = None) -> World:
    """From the environment (this process's, unless given). A program started by itself is rank 0 of 1.

    Raises ValueError where the variables contradict each other: training would hang or be wrong.
    """
    variables = os.environ if environment is None else environment
    names = next((names for names in _NAMES if all(name in variables for name in names)), None)
    rank, size, local_rank = _numbers(variables, names) if names else (0, 1, 0)
    if names and not 0 <= local_rank <= rank < size:
        told = ", ".join(f"{name}={variables[name]}" for name in names)
        raise ValueError(f"the launcher's variables make no sense: {told}; 0 <= local rank <= rank < world size")
    return World(rank, size, local_rank, variables.get("GPUCLUSTER_LAUNCHER", ""))


def _numbers(variables: Mapping[str, str], names: tuple[str, ...]) -> Iterator[int]:
    for name in names:
        try:
            yield int(variables[name])
        except ValueError:
            raise ValueError(f"{name} must be a whole number, got {variables[name]!r}") from None
