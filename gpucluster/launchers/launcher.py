"""What distinguishes one way of starting ranks from another, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

PYTHON = "/usr/bin/python3"
"""The nodes' own: an environment may hold none, and starts slower."""
CONTAINER, COMMAND = "{CONTAINER}", "{COMMAND}"
"""Words of their own in an argv: srun's options where the ranks run in a container; the ranks' command, where it does
not simply come behind. The job's first node puts them in, and `{OTHER_NAMES}` in words: gpucluster_job/launch.py."""


@dataclass(frozen=True)
class LaunchRequest:
    """A job, as far as starting its ranks goes."""

    folder: str
    """Absolute, on shared storage."""
    nodes: int
    ranks_per_node: int
    min_nodes: int | None = None
    servers: int = 0
    server_nodes: int = 0
    """0 where servers share the workers' nodes."""
    container_image: str = ""
    module_folder: str = "."
    """Of the program, relative to the working directory: where it finds modules of its own."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def ours(self, *words: str) -> list[str]:
        """gpucluster_job, which is shipped with the job."""
        return [PYTHON, "-IS", f"{self.folder}/lib/gpucluster_job", *words]

    def in_step(self, *words: str) -> list[str]:
        """The same, in a step of Slurm's that a container may be the place of."""
        return ["bash", f"{self.folder}/in-container.sh", *words] if self.container_image else self.ours(*words)

    def hosted_rank(self, verb: str) -> list[str]:
        """Where the launcher runs outside of the container that the ranks are in."""
        return self.ours(f"hosted-{verb}" if self.container_image else verb)


Argv = Callable[[LaunchRequest], list[str]]


@dataclass(frozen=True)
class Launcher:
    name: str
    argv: Argv
    """What is run on the job's first node, but for the command of the ranks, which comes behind it."""
    variables: Mapping[str, str]
    """How user code is told who it is: our variable -> the launcher's own, read in each rank."""
    slurm_starts_ranks: bool = False
    """True: one Slurm task is one rank. False: Slurm starts one task per node, and that starts the node's ranks."""
    frameworks: tuple[str, ...] = ()
    """Whose environments it starts ranks in, the usual one first. Empty: any, and the cluster's first unless told."""
    servers: bool = False
    """Whether the job has parameter servers beside its workers."""
    roles: bool = False
    """Whether processes differ in what they do, and each kind is a Slurm step of its own: gpucluster_job/roles."""
    one_rank_per_node: bool = False
    """Unless told otherwise: a rank drives all GPUs of its node, where others have one rank for each GPU."""
    types: tuple[str, ...] = ()
    """The only instance types that it runs on. Empty: any."""
    why_these_types: str = ""
    """For who asks for it on another type."""
    outside_container: bool = False
    """With a container_image: whether it still runs in the cluster's environment, and only the ranks in the image."""
    programs: tuple[str, ...] = ()
    """Files of templates/job/ that are shipped with the job, beside those that every job has; `a:b` ships a as b."""
