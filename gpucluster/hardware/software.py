"""Which software fits which machine: a table of environments, and a table of the drivers and libraries below them.

An environment is one framework's Python environment on the cluster, locked in `bootstrap/environments/<name>.txt`.
GPU families differ in what they can run: no release of a framework that was built for CUDA 11 knows Hopper, and
CUDA 13 has left Volta out. Sources stand beside the rows.

Below the environments: a Deep Learning AMI has driver, CUDA and the rest in versions that change with each release;
nodes verify that they are in the ranges of MACHINES. On a plain Ubuntu 24.04, and on a custom image that lacks
something, nodes install `installed`. V100 is a row apart: NVIDIA's open kernel modules never knew it.

Sources of MACHINES. The AMI: release notes of "Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)", December 2025 to October
2026, https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html: driver 580.105.08 to 595.91.07,
CUDA 12.8 to 13.2, GDRCopy 2.5.1 to 2.5.2, DCGM 4.4.2 to 4.7.0, EFA 1.45.1 to 1.50.0, aws-ofi-nccl 1.17.2 to 1.21.1.
Lower ends: torch 2.13 is built for CUDA 13.0, which needs driver 580.65.06 (CUDA Toolkit 13.0's release notes, table of
minimum drivers) and is compiled for by no older toolkit; Blackwell needs NCCL 2.25 (NVIDIA's release notes); P5 needs
aws-ofi-nccl 1.7.3 (aws-ofi-nccl, doc/efa-env-var.md), and the EFA installer has the plugin since 1.38. Upper ends: the
next major version, which nobody has tried; a newer driver runs what an older one did. Volta: CUDA 13.0's release notes,
and 580, NVIDIA's last driver for it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from gpucluster.hardware.instances import InstanceType

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


class Environment(NamedTuple):
    name: str
    """The name of its lock, and of its folder on the cluster."""
    framework: str
    families: tuple[str, ...]
    source: str


_MODERN = ("cpu", "turing", "ampere", "ada", "hopper", "blackwell")

_CUDA_11 = ("volta", "turing", "ampere")
_CUDA_12_2 = (*_CUDA_11, "ada", "hopper")

ENVIRONMENTS = (
    Environment("torch", "torch", _MODERN, "torch 2.13's wheels are for CUDA 13, which no longer supports Volta"),
    Environment("torch-volta", "torch", ("volta",), "PyTorch's release matrix: 2.7 for CUDA 12.6 has 7.0 in it"),
    Environment("horovod", "horovod", _MODERN, "horovod#3996: 0.28.1 builds with C++17"),
    Environment("horovod-volta", "horovod", ("volta",), "the same, on torch-volta's torch"),
    Environment("smddp", "smddp", ("volta", "ampere"), "SMDDP 2.5 is for PyTorch 2.4.1, CUDA 12.1, Python 3.11"),
    Environment("mxnet", "mxnet", _CUDA_11, "mxnet-cu112 1.9.1, the last: CUDA 11.2 supports nothing above 8.6"),
    Environment("mxnet-cpu", "mxnet", ("cpu",), "mxnet 1.9.1; the other does not load without a driver"),
    Environment("tensorflow", "tensorflow", _CUDA_12_2, "TensorFlow 2.15's tested configurations: CUDA 12.2"),
    Environment("tensorflow-cpu", "tensorflow", ("cpu",), "the same release for CPUs"),
)


def families(types: Iterable[InstanceType]) -> tuple[str, ...]:
    """The GPU families of a partition's instance types, each once."""
    return tuple(dict.fromkeys(FAMILIES[each.gpu_model] for each in types))


def environment(framework: str, types: Iterable[InstanceType]) -> Environment | None:
    """The environment that runs on all of these types; None if there is none."""
    wanted = set(families(types))
    fitting = (each for each in ENVIRONMENTS if each.framework == framework and wanted <= set(each.families))
    return next(fitting, None)


class Versions(NamedTuple):
    """The versions of one component."""

    least: str
    """The oldest accepted version."""
    below: str
    """The oldest refused version; empty if there is none."""
    installed: str
    """The version that is installed on a plain image, as its source names it."""


class Machine(NamedTuple):
    """The components below the frameworks on one generation of GPUs. The components of a row fit each other."""

    families: tuple[str, ...]
    kernel_module: Literal["open", "proprietary"]
    driver: Versions
    """Fabric manager has the driver's version, to the last digit."""
    cuda: Versions
    nccl: Versions
    gdrcopy: Versions
    dcgm: Versions


MACHINES = (
    Machine(
        families=("turing", "ampere", "ada", "hopper", "blackwell"),
        kernel_module="open",
        driver=Versions("580.65", "", "580"),
        cuda=Versions("13.0", "14", "13.0"),
        nccl=Versions("2.25", "3", "2.28.9-1+cuda13.0"),
        gdrcopy=Versions("2.4", "3", "2.5.1"),
        dcgm=Versions("4.0", "5", "4"),
    ),
    Machine(
        families=("volta",),
        kernel_module="proprietary",
        driver=Versions("535", "590", "580"),
        cuda=Versions("12.0", "13", "12.8"),
        nccl=Versions("2.18.5", "3", "2.26.2-1+cuda12.8"),
        gdrcopy=Versions("2.4", "3", "2.5.1"),
        dcgm=Versions("3.3", "5", "4"),
    ),
)

EFA = Versions("1.38.0", "2", "1.47.0")
OFI_NCCL = Versions("1.13", "2", "")
"""The EFA installer includes it."""

ENROOT = Versions("3.4.1", "5", "3.5.0")
PYXIS = Versions("0.20.0", "", "0.20.0")
"""The pair of AWS's PCS images; pyxis below 0.20 takes image names in another form."""

RDMA_MODELS = ("a100", "h100", "h200", "b200", "b300")
"""GPUs whose memory EFA reads and writes directly (P4d and newer), and that NVSwitch joins where a node has eight."""


def machine(instance_type: InstanceType) -> Machine | None:
    """The row of a type; None without GPUs."""
    family = FAMILIES[instance_type.gpu_model]
    return next((each for each in MACHINES if family in each.families), None)


def has_nvswitch(instance_type: InstanceType) -> bool:
    return instance_type.gpu_model in RDMA_MODELS and instance_type.gpus == 8


def has_nvlink_subnet_manager(instance_type: InstanceType) -> bool:
    """P6, whose NVSwitches are led through ConnectX cards. AWS's EC2 user guide, "Install NVIDIA public drivers"."""
    return has_nvswitch(instance_type) and FAMILIES[instance_type.gpu_model] == "blackwell"


def uses_gdrcopy(instance_type: InstanceType) -> bool:
    return instance_type.gpu_model in RDMA_MODELS and instance_type.efa_interfaces > 0


def job_environment(instance_type: InstanceType) -> Mapping[str, str]:
    """The variables that NCCL and libfabric need on this type. Many that older guides set (FI_PROVIDER,
    FI_EFA_USE_DEVICE_RDMA, FI_EFA_FORK_SAFE, RDMAV_FORK_SAFE, NCCL_PROTO) is not needed any more or does harm:
    aws-ofi-nccl, doc/efa-env-var.md; AWS's efa-cheatsheet.md in awsome-distributed-training."""
    found = {}
    if instance_type.gpus:
        # Interfaces of containers and the loopback reach no other node.
        found["NCCL_SOCKET_IFNAME"] = "^docker,lo,veth"
    if instance_type.gpus and instance_type.efa_interfaces:
        # Data loaders fork: with huge pages a fork may fail with "Cannot allocate memory".
        found["FI_EFA_USE_HUGE_PAGE"] = "0"
    if instance_type.gpu_model in ("a10g", "l4"):
        # No peer-to-peer between the GPUs of G5 and G6: the GPUs copy data through shared memory themselves.
        found["NCCL_SHM_USE_CUDA_MEMCPY"] = "1"
    return found
