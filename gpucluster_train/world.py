"""The rank of this process in its job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# GpuCluster jobs and torchrun set RANK and the like for every rank. The other names are for a program that a launcher
# starts outside of a GpuCluster job.
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
    """The rank on this node, which is the number of its GPU."""
    launcher: str = ""
    """The job's launcher, such as torchrun; empty outside a job."""

    @property
    def is_first(self) -> bool:
        """The rank that reports and writes files."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """This rank's part of `count` samples: every size-th, equally many on all ranks. A remainder is dropped."""
        return range(self.rank, count - count % self.size, self.size)

    def part(self, count: int) -> range:
        """The same with the remainder: together the ranks have each sample once, and some have one more than others."""
        return range(self.rank, count, self.size)


def world(environment: Mapping[str, str] | None = None) -> World:
    """From the environment (default: this process's). A program started on its own is rank 0 of 1.

    Raises ValueError if the variables contradict each other: training would hang or be wrong.
    """
    variables = os.environ if environment is None else environment
    names = next((names for names in _NAMES if all(name in variables for name in names)), None)
    rank, size, local_rank = _numbers(variables, names) if names else (0, 1, 0)
    if names and not 0 <= local_rank <= rank < size:
        given = ", ".join(f"{name}={variables[name]}" for name in names)
        raise ValueError(
            f"inconsistent variables of the launcher: {given}; required: 0 <= local rank <= rank < world size"
        )
    return World(rank, size, local_rank, variables.get("GPUCLUSTER_LAUNCHER", ""))


def _numbers(variables: Mapping[str, str], names: tuple[str, ...]) -> Iterator[int]:
    for name in names:
        try:
            yield int(variables[name])
        except ValueError:
            raise ValueError(f"{name} must be a whole number, got {variables[name]!r}") from None


_RANKS_ON_NODE = ("LOCAL_WORLD_SIZE", "HOROVOD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "RANKS_PER_NODE")


def cpus(environment: Mapping[str, str], usable: int) -> int:
    """This rank's share of its node's CPUs. `usable`: those that the process may run on.

    A rank that is bound to the CPUs near its GPU shares them with others: its part of all CPUs of the job counts, which
    the job has put into CPUS_PER_RANK.
    """
    if counted := environment.get("CPUS_PER_RANK"):
        return max(1, int(counted))
    of_job = int(environment.get("SLURM_CPUS_ON_NODE") or usable)
    return max(1, min(usable, of_job // ranks_on_node(environment)))


def ranks_on_node(environment: Mapping[str, str]) -> int:
    return next((int(environment[name]) for name in _RANKS_ON_NODE if environment.get(name)), 1)


WORKERS_PER_CPU = 16
"""A rank's most. Twice as many as CPUs already help only where they wait for storage."""


def workers(asked: str | int = "auto") -> int:
    """Processes that decode, for each rank. `auto`: the CPUs of this rank's share without two, for torch's own threads.

    Raises ValueError.
    """
    usable = len(os.sched_getaffinity(0))
    if asked == "auto":
        return max(1, cpus(os.environ, usable) - 2)
    try:
        count = int(asked)
    except ValueError:
        count = -1
    if not 0 <= count <= WORKERS_PER_CPU * usable:
        raise ValueError(
            f"the number of workers is {asked!r}; allowed: auto, or a whole number from 0 to "
            f"{WORKERS_PER_CPU * usable}, {WORKERS_PER_CPU} for each CPU"
        )
    return count


WORKER_BYTES = 150 << 20
"""What a worker does not share with its rank, apart from its samples. Measured with torch 2.13: 149 to 152 MiB."""


def check_room(workers: int) -> None:
    """Raises ValueError if this node's ranks would take all of its memory for so many workers each."""
    ranks, memory_bytes = ranks_on_node(os.environ), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (needed := workers * ranks * WORKER_BYTES) > memory_bytes:
        raise ValueError(
            f"{workers} workers for each of the node's {ranks} ranks take at least {needed / 2**30:.1f} GiB of memory, "
            f"and it has {memory_bytes / 2**30:.1f} GiB: use at most {memory_bytes // (ranks * WORKER_BYTES)}"
        )
