"""Which CPUs a rank gets, on the topology of a real p4d.24xlarge and with the kernel's own affinity calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucluster_job.ranks import cpus

ROOT = Path(__file__).resolve().parents[4]
# topology/p4d-24xl-topo.xml of aws/aws-ofi-nccl (35d97d28); its tests/unit/fixtures/topology/p4d/topology.xml, which
# lstopo wrote on a p4d.24xlarge, has the same two NUMA nodes
P4D_NODES = {0: "0-23,48-71", 1: "24-47,72-95"}
P4D_GPUS = {
    "0000:10:1c.0": 0, "0000:10:1d.0": 0, "0000:20:1c.0": 0, "0000:20:1d.0": 0,
    "0000:90:1c.0": 1, "0000:90:1d.0": 1, "0000:a0:1c.0": 1, "0000:a0:1d.0": 1,
}  # fmt: skip
FIRST, SECOND = {*range(24), *range(48, 72)}, {*range(24, 48), *range(72, 96)}
ALL = FIRST | SECOND
# /proc/driver/nvidia/gpus/0000:62:00.0/information of an H100 with driver 535.129.03, from notes on GitHub, as in
# tests/unit/node/test_node_kernel_log.py. Minor numbers need not follow the bus: of four RTX 3090 in other notes, the
# last one on the bus has minor number 0.
INFORMATION = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 10
GPU UUID: \t GPU-{uuid}-b60b-a624-bf14-0a1819cfda3b
Video BIOS: \t 96.00.99.00.01
Bus Type: \t PCIe
DMA Size: \t 52 bits
DMA Mask: \t 0xfffffffffffff
Bus Location: \t {address}
Device Minor: \t {minor}
GPU Firmware: \t 535.129.03
GPU Excluded:\t No
"""
MINORS = (5, 0, 1, 2, 3, 4, 6, 7)


def machine(root: Path, gpus: dict[str, int] = P4D_GPUS, nodes: dict[int, str] = P4D_NODES, hidden: str = "") -> str:
    """`hidden`: GPUs that the job's control group refuses. To access(2) that is as if the device did not exist."""
    for place, (address, node) in enumerate(gpus.items()):
        minor = MINORS[place]
        text = INFORMATION.format(address=address, minor=minor, uuid=f"{place}221d5d1")
        write(root / "proc/driver/nvidia/gpus" / address / "information", text)
        write(root / "sys/bus/pci/devices" / address / "numa_node", f"{node}\n")
        if address not in hidden.split():
            write(root / f"dev/nvidia{minor}", "")
    for node, listed in nodes.items():
        write(root / f"sys/devices/system/node/node{node}/cpulist", f"{listed}\n")
    return f"{root}/"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rank(local: int = 0, ranks: int = 8, **more: str) -> dict[str, str]:
    return {"LOCAL_RANK": str(local), "RANKS_PER_NODE": str(ranks), **more}


def test_each_rank_of_a_p4d_gets_the_socket_of_its_gpu(tmp_path: Path) -> None:
    root = machine(tmp_path)
    assert [cpus.near(rank(local), ALL, root) for local in range(8)] == [FIRST] * 4 + [SECOND] * 4


def test_cuda_visible_devices_gives_the_order(tmp_path: Path) -> None:
    root = machine(tmp_path)
    backwards = rank(CUDA_VISIBLE_DEVICES="7,6,5,4,3,2,1,0")
    assert cpus.near(backwards, ALL, root) == SECOND
    by_uuid = rank(ranks=2, CUDA_VISIBLE_DEVICES="GPU-6221d5d1,GPU-0221d5d1-b60b-a624-bf14-0a1819cfda3b")
    assert cpus.near(by_uuid, ALL, root) == SECOND
    assert cpus.near({**by_uuid, "LOCAL_RANK": "1"}, ALL, root) == FIRST


def test_gpus_that_slurm_hides_are_not_counted(tmp_path: Path) -> None:
    """Slurm numbers the job's GPUs from 0 then: CUDA_VISIBLE_DEVICES=0,1 of a job that has the last two."""
    root = machine(tmp_path, hidden=" ".join(list(P4D_GPUS)[:6]))
    assert cpus.near(rank(ranks=2, CUDA_VISIBLE_DEVICES="0,1"), ALL, root) == SECOND


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        (rank(ranks=1), "one rank drives all GPUs, of both sockets"),
        (rank(ranks=4), "4 ranks and 8 GPUs: the program chooses"),
        (rank(ranks=16), "2 ranks for each GPU: the program chooses"),
        (rank(CUDA_VISIBLE_DEVICES=""), "no GPU"),
        (rank(CUDA_VISIBLE_DEVICES="MIG-c7384736-a75d-5afc-978f-d2f1294409fd"), "a part of a GPU"),
        (rank(CUDA_VISIBLE_DEVICES="GPU-ffff"), "a GPU that is not here"),
        (rank(CUDA_VISIBLE_DEVICES="-1"), "how users hide all GPUs"),
    ],
)
def test_a_rank_whose_gpu_is_not_known_keeps_its_cpus(environ: dict[str, str], why: str, tmp_path: Path) -> None:
    assert cpus.near(environ, ALL, machine(tmp_path)) == ALL, why


def test_a_worker_with_a_role_is_near_all_gpus_that_it_sees(tmp_path: Path) -> None:
    root = machine(tmp_path)
    worker = rank(1, ranks=2, GPUCLUSTER_ROLE="worker")
    assert cpus.near({**worker, "CUDA_VISIBLE_DEVICES": "4,5,6,7"}, ALL, root) == SECOND
    assert cpus.near({**worker, "CUDA_VISIBLE_DEVICES": "3,4"}, ALL, root) == ALL


def test_gpus_without_a_numa_node_bind_nothing(tmp_path: Path) -> None:
    """A virtual machine with one NUMA node says -1 (Documentation/ABI/testing/sysfs-bus-pci)."""
    root = machine(tmp_path, gpus=dict.fromkeys(P4D_GPUS, -1))
    assert cpus.near(rank(), ALL, root) == ALL
    assert cpus.near(rank(), ALL, f"{tmp_path}/nothing/") == ALL


@pytest.mark.parametrize(
    ("allowed", "ranks", "found"),
    [
        (SECOND, 8, SECOND),  # the job has none of the socket's CPUs
        ({*range(8), *range(24, 32)}, 8, set(range(8))),
        ({0, *range(24, 48)}, 8, {0, *range(24, 48)}),  # 4 ranks would share one CPU of 25
        ({*range(24), *range(48, 60)}, 8, {*range(24), *range(48, 60)}),
    ],
)
def test_only_cpus_of_the_job_and_enough_of_them(
    allowed: set[int], ranks: int, found: set[int], tmp_path: Path
) -> None:
    assert cpus.near(rank(ranks=ranks), allowed, machine(tmp_path)) == found


@given(allowed=st.sets(st.integers(0, 95), min_size=1), ranks=st.integers(1, 16), data=st.data())
def test_never_empty_and_never_more_than_allowed(allowed: set[int], ranks: int, data: st.DataObject, p4d: str) -> None:
    local = data.draw(st.integers(0, ranks - 1))
    found = cpus.near(rank(local, ranks), allowed, p4d)
    assert found and found <= allowed


@pytest.fixture(scope="module")
def p4d(tmp_path_factory: pytest.TempPathFactory) -> str:
    return machine(tmp_path_factory.mktemp("p4d"))


PROGRAM = """
import json, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from gpucluster_job.ranks import cpus
os.sched_setaffinity(0, json.loads(sys.argv[3]))
cpus.bind(dict(os.environ), sys.argv[2])
print(subprocess.run(["taskset", "-pc", str(os.getpid())], stdout=subprocess.PIPE, text=True).stdout)
print(json.dumps(sorted(os.sched_getaffinity(0))))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_the_kernel_binds_the_process_and_what_it_starts(tmp_path: Path) -> None:
    one, other = sorted(os.sched_getaffinity(0))[:2]
    root = machine(tmp_path, gpus=dict(list(P4D_GPUS.items())[3:5]), nodes={0: str(one), 1: str(other)})

    def bound(local: int, **more: str) -> list[int]:
        argv = [sys.executable, "-c", PROGRAM, str(ROOT), root, json.dumps([one, other])]
        environment = {**os.environ, **rank(local, ranks=2), **more}
        done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        said, found = done.stdout.strip().splitlines()[0], json.loads(done.stdout.splitlines()[-1])
        assert said.endswith(f": {','.join(map(str, found))}") or len(found) > 1
        return list(found)

    assert (bound(0), bound(1)) == ([one], [other])
    assert bound(0, GPUCLUSTER_BINDING="none") == [one, other]


def asked(launcher: str, **more: str) -> dict[str, str]:
    variables = "RANK=SLURM_PROCID" if launcher == "srun" else "NODE_RANK=GROUP_RANK"
    return {"GPUCLUSTER_RANK_VARIABLES": variables, "GPUS_PER_NODE": "8", "RANKS_PER_NODE": "4", **more}


def test_a_ranks_share_of_the_cpus() -> None:
    assert cpus.share(asked("torchrun"), 96) == 24
    assert cpus.share(asked("torchrun", SLURM_CPUS_PER_TASK="96"), 96) == 24  # of the agent's task
    assert cpus.share(asked("srun", SLURM_CPUS_PER_TASK="12"), 96) == 12
    assert cpus.share(asked("torchrun", RANKS_PER_NODE="8"), 2) == 1


@pytest.mark.parametrize(
    ("environ", "is_rank", "threads"),
    [
        ({}, True, None),
        ({"GPUS_PER_NODE": "0"}, True, 4),
        ({"GPUS_PER_NODE": "0"}, False, None),  # a scheduler
        ({"GPUCLUSTER_ROLE": "server", "NUM_SERVERS": "4", "NUM_SERVER_NODES": "2"}, False, 8),
        ({"GPUCLUSTER_ROLE": "server", "NUM_SERVERS": "2", "NUM_SERVER_NODES": "0", "RANKS_PER_NODE": "1"}, False, 8),
        ({"GPUCLUSTER_ROLE": "server", "NUM_SERVERS": "3", "NUM_SERVER_NODES": "0", "RANKS_PER_NODE": "2"}, False, 4),
    ],
)
def test_threads_by_role(environ: dict[str, str], is_rank: bool, threads: int | None, monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    found = cpus.variables(asked("torchrun", NUM_NODES="2", **environ), is_rank=is_rank)
    assert found.get("OMP_NUM_THREADS") == (threads and str(threads))
    assert ("CPUS_PER_RANK" in found) == is_rank
