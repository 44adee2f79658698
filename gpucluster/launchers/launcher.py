"""What distinguishes one way of starting ranks from another, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Launcher:
    name: str
    template: str
    """In templates/job/: the lines of the script that start the ranks."""
    variables: Mapping[str, str]
    """How user code is told who it is: our variable -> the launcher's own, read in each rank."""
    slurm_starts_ranks: bool = False
    """True: one Slurm task is one rank. False: Slurm starts one task per node, and that starts the node's ranks."""
    frameworks: tuple[str, ...] = ()
    """Whose environments it starts ranks in, the usual one first. Empty: any, and the cluster's first unless told."""
    servers: bool = False
    """Whether the job has parameter servers beside its workers."""
    roles: bool = False
    """Whether processes differ in what they do, and each kind is a Slurm step of its own: templates/job/roles.sh."""
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
