"""The CPUs of a rank's program: how many are its share, how many threads OpenMP starts, and which are near its GPU.

torchrun's own --numa-binding is not used: it ends the job on a node without numactl, and binds a GPU that has no NUMA
node to node 0 (_raise_if_binding_invalid and _get_numa_node_index_for_gpu_index in torch/numa/binding.py of 2.13). This
is the same for every launcher, for every torch, and in containers.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Mapping, NamedTuple

Environment = Mapping[str, str]
_GPUS, _PCI, _NODES = "proc/driver/nvidia/gpus", "sys/bus/pci/devices", "sys/devices/system/node"
_FIELD = re.compile(r"^(GPU UUID|Device Minor):\s*(\S+)", re.MULTILINE)


class Gpu(NamedTuple):
    uuid: str
    numa_node: int
    """-1 where the machine has none, or does not say."""


def share(environ: Environment, allowed: int) -> int:
    """How many of the `allowed` CPUs are for this rank. Slurm has counted them if it started the rank itself."""
    by_slurm = "SLURM_PROCID" in environ["GPUCLUSTER_RANK_VARIABLES"] or "GPUCLUSTER_ROLE" in environ
    counted = int(environ.get("SLURM_CPUS_PER_TASK") or 0) if by_slurm else 0
    return counted or _part(allowed, int(environ["RANKS_PER_NODE"]))


def variables(environ: Environment, *, is_rank: bool) -> dict[str, str]:
    """CPUS_PER_RANK of a rank. OMP_NUM_THREADS where it is not 1: a rank on GPUs needs its CPUs for the processes that
    read its data, and torchrun gives it 1, too; parameter servers and ranks without GPUs compute on CPUs."""
    allowed = len(os.sched_getaffinity(0))
    if environ.get("GPUCLUSTER_ROLE") == "server":
        return {"OMP_NUM_THREADS": str(_part(allowed, _beside_server(environ)))}
    if not is_rank:
        return {}
    cpus = str(share(environ, allowed))
    return {"CPUS_PER_RANK": cpus, **({"OMP_NUM_THREADS": cpus} if environ["GPUS_PER_NODE"] == "0" else {})}


def _beside_server(environ: Environment) -> int:
    """The servers of a node, and the workers if they share it."""
    servers, own_nodes = int(environ["NUM_SERVERS"]), int(environ["NUM_SERVER_NODES"])
    nodes = own_nodes or min(int(environ["NUM_NODES"]), servers)
    return -(-servers // nodes) + (0 if own_nodes else int(environ["RANKS_PER_NODE"]))


def _part(cpus: int, processes: int) -> int:
    return max(1, cpus // processes)


def bind(environ: Environment, root: str = "/") -> None:
    """This process and those that it starts run on the CPUs near the rank's GPUs. Memory then comes from there, too:
    Linux takes it from the node of the CPU that first writes to it."""
    if environ.get("GPUCLUSTER_BINDING") == "none":
        return
    allowed = os.sched_getaffinity(0)
    if (chosen := near(environ, allowed, root)) != allowed:
        with suppress(OSError):  # Slurm may have taken CPUs away since
            os.sched_setaffinity(0, chosen)


def near(environ: Environment, allowed: set[int], root: str = "/") -> set[int]:
    """The allowed CPUs of the NUMA node of the rank's GPUs. All that are allowed: if its GPUs have no node or several,
    if it is not known which GPU it will use, or if so few of the node's CPUs are allowed that the ranks there would
    have less than half of their equal share."""
    visible = visible_gpus(environ.get("CUDA_VISIBLE_DEVICES"), gpus(root))
    nodes, ranks = [gpu.numa_node for gpu in visible], int(environ["RANKS_PER_NODE"])
    # a worker of a job with roles sees no others' GPUs: `share_gpus` of roles/role.py
    one_each = len(nodes) == ranks and "GPUCLUSTER_ROLE" not in environ
    own = set(nodes[int(environ["LOCAL_RANK"]) :][:1] if one_each else nodes)
    node = own.pop() if len(own) == 1 else -1
    if node < 0:
        return allowed
    found = allowed & cpus_of(node, root)
    there = nodes.count(node) if one_each else ranks
    return found if found and 2 * len(found) * ranks >= len(allowed) * there else allowed


def gpus(root: str = "/") -> list[Gpu]:
    """The GPUs that this process may open, in CUDA's order: equal GPUs by their address on the PCI bus. Their minor
    numbers may have another order. access(2) asks the control group of devices (`inode_permission` in fs/namei.c); it
    does not wake the GPU, as opening the file does."""
    found: list[Gpu] = []
    with suppress(FileNotFoundError):
        for address in sorted(os.listdir(f"{root}{_GPUS}")):
            says = dict(_FIELD.findall(_read(f"{root}{_GPUS}/{address}/information")))
            if os.access(f"{root}dev/nvidia{says.get('Device Minor')}", os.R_OK | os.W_OK):
                node = _read(f"{root}{_PCI}/{address.lower()}/numa_node").strip()
                found.append(Gpu(says.get("GPU UUID", ""), int(node or -1)))
    return found


def visible_gpus(chosen: str | None, every: list[Gpu]) -> list[Gpu]:
    """Those of CUDA_VISIBLE_DEVICES, numbers or beginnings of UUIDs, up to the first that does not exist (CUDA C++
    Programming Guide, "CUDA Environment Variables"). Parts of GPUs (MIG) are not found."""
    if chosen is None:
        return every
    found: list[Gpu] = []
    for word in map(str.strip, chosen.split(",")):
        if word.isdecimal():
            matching = every[int(word) :][:1]
        else:
            matching = [gpu for gpu in every if word.startswith("GPU-") and gpu.uuid.startswith(word)]
        if len(matching) != 1:
            break
        found += matching
    return found


def cpus_of(node: int, root: str = "/") -> set[int]:
    """Reads a list such as 0-23,48-71."""
    found: set[int] = set()
    for part in _read(f"{root}{_NODES}/node{node}/cpulist").strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
