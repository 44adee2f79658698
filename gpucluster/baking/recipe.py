"""The content of a baked image, as text: the builder's script, its steps, and the versions that they install.

A recipe is the hash of all that. The only part that depends on a cluster is its `Extras`, so one image serves many
clusters of a region.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpucluster import render
from gpucluster.config import ClusterConfig
from gpucluster.hardware import software
from gpucluster.hardware.instances import InstanceType

INSTALLS = (
    "apt_timers",
    "packages",
    "nvidia_driver",
    "fabric_manager",
    "cuda",
    "nccl",
    "gdrcopy",
    "efa",
    "dcgm",
    "agent_package",
    "monitoring_packages",
)
"""Steps in the order in which they run; those about GPUs and EFA depend on the builder's instance type."""
_LIBRARIES = (
    *("runner", "locks", "machine_environment", "files", "services", "imds", "parameters", "wait_condition"),
    *("apt", "nvidia", "this_machine", "this_partition", "agent", "monitoring"),
)


@dataclass(frozen=True)
class Extras:
    """Optional content of images."""

    containers: bool = False
    """Pyxis is built for the installed Slurm."""
    storage: tuple[str, ...] = ()
    """Clients of file systems: `clients` of the kinds of storage, such as fsx-efa."""

    @classmethod
    def of(cls, config: ClusterConfig) -> Extras:
        kinds = {client for each in config.storage for client in each.clients}
        return cls(config.software.containers, tuple(sorted(kinds)))

    @property
    def steps(self) -> tuple[str, ...]:
        return ("container_runtime",) * self.containers + ("storage_clients",) * bool(self.storage)

    @property
    def libraries(self) -> tuple[str, ...]:
        return ("kernel", "lustre") if self.storage else ()

    @property
    def rooms(self) -> tuple[str, ...]:
        """Names of the kinds of storage in bootstrap/steps/storage/."""
        return tuple(dict.fromkeys(kind.partition("-")[0] for kind in self.storage))


NO_EXTRAS = Extras()


def parts(machine: InstanceType) -> str:
    """The parts that depend on the builder's instance type: `open-efa-nvswitch-gdrcopy`, `cpu`."""
    row = software.machine(machine)
    has = {
        row.kernel_module if row else "cpu": True,
        "efa": machine.efa_interfaces > 0,
        "nvswitch": software.has_nvswitch(machine),
        "nvlsm": software.has_nvlink_subnet_manager(machine),
        "gdrcopy": software.uses_gdrcopy(machine),
    }
    return "-".join(name for name, there in has.items() if there)


def recipe(extras: Extras = NO_EXTRAS) -> str:
    """16 hex digits, which depend only on steps and versions."""
    return _recipe(extras)


@cache  # a separate function, because mypy does not check the arguments of a cached one
def _recipe(extras: Extras) -> str:
    versions = (software.MACHINES, software.EFA, software.OFI_NCCL, software.ENROOT, software.PYXIS)
    return render.version({**_files("", "", extras), "versions": repr(versions)})


def bundle(base: str, machine: InstanceType, extras: Extras = NO_EXTRAS) -> dict[str, str]:
    """Path -> text of all the builder's files. `base`: the AMI that it boots."""
    return {**_files(base, recipe(extras), extras), f"machines/{machine.name}.sh": render.machine(machine)}


def _files(base: str, recipe_: str, extras: Extras) -> dict[str, str]:
    installs = [*INSTALLS, *extras.steps]
    libraries = [*_LIBRARIES, *extras.libraries]
    script = render.image_script(base=base, recipe=recipe_, installs=installs, libraries=libraries, extras=extras)
    steps = (render.step(name) for name in (*extras.rooms, *installs, "seal"))
    return {"image.sh": script, **dict(map(render.library, libraries)), **dict(steps)}
