"""What is baked, as text: the script of the machine that an image is made of, its steps, the versions they install.

A recipe is the hash of all that. It holds nothing of a cluster but whether jobs may run in containers, so that one
image serves many clusters of a region.
"""

from __future__ import annotations

import re
from functools import cache

from gpucluster import matrix, render
from gpucluster.instances import InstanceType

INSTALLS = (
    "packages",
    "nvidia_driver",
    "fabric_manager",
    "cuda",
    "nccl",
    "gdrcopy",
    "efa",
    "dcgm",
    "agent_package",
)
"""Steps in the order in which they run; those about GPUs and EFA look at what the builder's instance type has."""
_CONTAINERS = "container_runtime"
"""The step for software.containers: what it installs is built for the Slurm that is there."""
_USED = ("runner", "files", "services", "imds", "parameters", "this_machine", "nvidia_packages", "cloudwatch_agent")
"""Files of steps that have no step of this script, and functions that others call."""


@cache
def recipe(containers: bool = False) -> str:
    """16 hex digits: of the same steps and versions the same everywhere."""
    versions = (matrix.MACHINES, matrix.EFA, matrix.OFI_NCCL, matrix.ENROOT, matrix.PYXIS)
    return render.version({**_files("", "", containers), "versions": repr(versions)})


def bundle(base: str, machine: InstanceType, containers: bool = False) -> dict[str, str]:
    """Path -> text of all that the builder gets. `base`: the AMI that it boots."""
    return {**_files(base, recipe(containers), containers), f"machines/{machine.name}.sh": render.machine(machine)}


def _files(base: str, recipe_: str, containers: bool) -> dict[str, str]:
    installs = [*INSTALLS, _CONTAINERS] if containers else INSTALLS
    sources = [*_USED, *installs, "seal", "signal"]
    script = render.image_script(base=base, recipe=recipe_, installs=installs, sources=sources, containers=containers)
    steps = render.steps()
    return {"image.sh": script, **{name: steps[name] for name in re.findall(r"steps/\w+\.sh", script)}}
