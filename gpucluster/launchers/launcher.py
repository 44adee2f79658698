"""How a launcher starts ranks, as data."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

PYTHON = "/usr/bin/python3"
"""The nodes' own Python: an environment may have none, and starts more slowly."""
CONTAINER, COMMAND = "{CONTAINER}", "{COMMAND}"
"""Placeholders in an argv: srun's options if the ranks run in a container; the ranks' command if it does not come
last. The job's first node replaces them, and `{OTHER_NAMES}` inside words: gpucluster_job/launch.py."""


class LaunchRequest(NamedTuple):
    """The part of a job that a launcher needs."""

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
    """The program's folder, relative to the working directory: it finds its own modules there."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def ours(self, *words: str) -> list[str]:
        """Runs gpucluster_job, which is shipped with the job."""
        return [PYTHON, "-IS", f"{self.folder}/lib/gpucluster_job", *words]

    def in_step(self, *words: str) -> list[str]:
        """The same in a Slurm step, which may run in a container."""
        return ["bash", f"{self.folder}/in-container.sh", *words] if self.container_image else self.ours(*words)

    def hosted_rank(self, verb: str) -> list[str]:
        """Starts a rank in the container if the launcher itself runs outside of it."""
        return self.ours(f"hosted-{verb}" if self.container_image else verb)


Argv = Callable[[LaunchRequest], list[str]]


class Launcher(NamedTuple):
    name: str
    argv: Argv
    """The command line for the job's first node, without the ranks' command, which follows it."""
    variables: Mapping[str, str]
    """How a rank learns its identity: our variable -> the launcher's variable, read in each rank."""
    slurm_starts_ranks: bool = False
    """True: each Slurm task is a rank. False: Slurm starts one task per node, which starts the node's ranks."""
    frameworks: tuple[str, ...] = ()
    """Frameworks whose environments it supports, the default first. Empty: all; the default is the cluster's first."""
    servers: bool = False
    """Whether the job has parameter servers beside its workers."""
    roles: bool = False
    """Whether processes have different roles, each started as a separate Slurm step: gpucluster_job/roles."""
    one_rank_per_node: bool = False
    """Default: one rank drives all GPUs of its node; other launchers have one rank for each GPU."""
    types: tuple[str, ...] = ()
    """The only instance types that it supports. Empty: any."""
    why_these_types: str = ""
    """Hint for a user who chooses another type."""
    outside_container: bool = False
    """With a container_image: whether it still runs in the cluster's environment, and only the ranks in the image."""
    programs: tuple[str, ...] = ()
    """Files of templates/job/ that are shipped with the job in addition to those of every job; `a:b` ships a as b."""
