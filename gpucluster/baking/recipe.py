"""What is baked, as text: the script of the machine that an image is made of, its steps, the versions they install.

A recipe is the hash of all that. It holds nothing of a cluster, so one image serves all clusters of a region.
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
_USED = ("runner", "files", "services", "imds", "parameters", "this_machine", "nvidia_packages", "cloudwatch_agent")
"""Files of steps that have no step of this script, and functions that others call."""


@cache
def recipe() -> str:
    """16 hex digits: of the same steps and versions the same everywhere."""
    return render.version({**_files("", ""), "versions": repr((matrix.MACHINES, matrix.EFA, matrix.OFI_NCCL))})


def bundle(base: str, machine: InstanceType) -> dict[str, str]:
    """Path -> text of all that the builder gets. `base`: the AMI that it boots."""
    return {**_files(base, recipe()), f"machines/{machine.name}.sh": render.machine(machine)}


def _files(base: str, recipe_: str) -> dict[str, str]:
    sources = [*_USED, *INSTALLS, "seal", "signal"]
    script = render.image_script(base=base, recipe=recipe_, installs=INSTALLS, sources=sources)
    steps = render.steps()
    return {"image.sh": script, **{name: steps[name] for name in re.findall(r"steps/\w+\.sh", script)}}
