"""Which software fits which machine: one table of environments, and the versions in each.

An environment is one framework's Python environment on the cluster, locked in `bootstrap/environments/<name>.txt`.
GPU families differ in what they can run: no release of a framework that was built for CUDA 11 knows Hopper, and
CUDA 13 has left Volta out. Sources stand beside the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpucluster.instances import InstanceType

FAMILIES: Mapping[str | None, str] = MappingProxyType(
    {
        None: "cpu",
        "v100": "volta",
        "t4": "turing",
        "a100": "ampere",
        "a10g": "ampere",
        "l4": "ada",
        "l40s": "ada",
        "h100": "hopper",
        "h200": "hopper",
        "b200": "blackwell",
        "b300": "blackwell",
    }
)
"""GPU as Slurm's GRES names it -> NVIDIA's architecture; no GPU is `cpu`."""


@dataclass(frozen=True)
class Environment:
    name: str
    """Of its lock, and of its folder on the cluster."""
    framework: str
    families: tuple[str, ...]
    source: str


_MODERN = ("cpu", "turing", "ampere", "ada", "hopper", "blackwell")

ENVIRONMENTS = (
    Environment("torch", "torch", (*_MODERN, "volta"), "PyTorch's release matrix"),
    Environment("horovod", "horovod", (*_MODERN, "volta"), "horovod#3996: 0.28.1 builds with C++17"),
)


def families(types: Iterable[InstanceType]) -> tuple[str, ...]:
    """Of a partition's instance types, each once."""
    return tuple(dict.fromkeys(FAMILIES[each.gpu_model] for each in types))


def environment(framework: str, types: Iterable[InstanceType]) -> Environment | None:
    """The one that runs on every one of these types; None where there is none."""
    wanted = set(families(types))
    fitting = (each for each in ENVIRONMENTS if each.framework == framework and wanted <= set(each.families))
    return next(fitting, None)
