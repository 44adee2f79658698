"""The stages of the proof: what each adds to the cluster, runs on it, and expects. The cheapest comes first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpucluster import config as cluster_config
from gpucluster.cluster import plan
from gpucluster.layout import expand

CLUSTER = "GpuClusterProof"
HEAD = "m6i.large"


@dataclass(frozen=True)
class Job:
    """One `gpucluster submit`. The program's last words are looked at in the job's result."""

    name: str
    launcher: str
    command: tuple[str, ...]
    ranks_per_node: int | None = None
    """None: one for each GPU."""
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    name: str
    proves: str
    partition: dict[str, Any]
    """A partition of cluster.yaml. Stages may share one."""
    deadline_minutes: int
    """For the change of the cluster and the jobs together. Deleting has its own time."""
    jobs: tuple[Job, ...]
    frameworks: tuple[str, ...] = ("torch",)
    storage: tuple[dict[str, Any], ...] = ()
    nccl_network: str | None = None
    """The network that NCCL must have used; None: any."""

    @property
    def nodes(self) -> int:
        return int(self.partition["max_nodes"])


BANDWIDTH = r"gb_per_s=bus bandwidth (\S+) GB/s"
FACTS = Job("facts", "srun", ("bash", "facts.sh"), ranks_per_node=1)
ALL_REDUCE = Job("all-reduce", "torchrun", ("python", "all_reduce.py"), metrics=(BANDWIDTH,))
HOROVOD = Job("horovod", "horovodrun", ("python", "horovod_sum.py"))
LUSTRE = Job("lustre", "srun", ("bash", "lustre.sh"), ranks_per_node=1)


def _gpus(name: str, instance_type: str, *, efa: bool = False, **more: Any) -> dict[str, Any]:
    found = {"name": name, "instance_types": [instance_type], "max_nodes": 2, "efa": "required" if efa else "off"}
    return {**found, "placement_group": "cluster" if efa else "none", "idle_minutes": 2, **more}


SINGLE = _gpus("single", "g4dn.xlarge")
_STAGES = (
    Stage(
        "single", "two nodes with one GPU each boot, join Slurm and reduce over NCCL", SINGLE, 45, (FACTS, ALL_REDUCE)
    ),
    Stage(
        "horovod", "Horovod is compiled with CUDA on a node, and reduces", SINGLE, 75, (HOROVOD,), ("torch", "horovod")
    ),
    Stage(
        "fsx", "FSx for Lustre is made, mounted and written (an AMI with kernel 6.17: --image)", SINGLE, 60, (LUSTRE,),
        storage=({"mount": "/fsx", "type": "fsx-lustre", "deployment": "scratch-2", "capacity_gib": 1200},),
    ),
    Stage(
        "efa", "EFA interfaces come up, and NCCL takes them", _gpus("efa", "g4dn.8xlarge", efa=True), 45,
        (FACTS, ALL_REDUCE), nccl_network="efa",
    ),
    Stage(
        "p4d", "8 GPUs and 4 EFA interfaces on each node", _gpus("p4d", "p4d.24xlarge", efa=True), 60,
        (FACTS, ALL_REDUCE), nccl_network="efa",
    ),
    Stage(
        "p5", "8 GPUs and 32 EFA interfaces on each node", _gpus("p5", "p5.48xlarge", efa=True), 60,
        (FACTS, ALL_REDUCE), nccl_network="efa",
    ),
)  # fmt: skip
STAGES = {stage.name: stage for stage in _STAGES}
DEFAULT = ("single",)


def capacity_block(instance_type: str, reservation_id: str) -> Stage:
    bought = {"purchase": "capacity-block", "reservation_id": reservation_id, "placement_group": "none"}
    partition = {**_gpus("block", instance_type, efa=True), **bought}
    proves = "nodes are launched into a Capacity Block"
    return Stage("capacity-block", proves, partition, 60, (FACTS, ALL_REDUCE), nccl_network="efa")


@dataclass(frozen=True)
class Place:
    region: str
    availability_zone: str | None = None
    image: str | None = None


def cluster_file(stages: Sequence[Stage], place: Place) -> str:
    """The cluster that these stages need together, as JSON, which is YAML as well."""
    partitions = {stage.partition["name"]: stage.partition for stage in stages}
    frameworks = dict.fromkeys(each for stage in stages for each in stage.frameworks)
    software = {"frameworks": list(frameworks), **({"image": place.image} if place.image else {})}
    text: dict[str, Any] = {
        "name": CLUSTER,
        "region": place.region,
        **({"availability_zone": place.availability_zone} if place.availability_zone else {}),
        "head_node": {"instance_type": HEAD, "volume_gib": 20, "on_delete": "delete", "snapshot_days": 0},
        "partitions": list(partitions.values()),
        "software": software,
    }
    storage = [each for stage in stages for each in stage.storage]
    return json.dumps({**text, **({"storage": storage} if storage else {})}, indent=2) + "\n"


@dataclass
class Bill:
    """At most: every node of a stage up until the stage's deadline, and what `plan` prices beside them, on demand."""

    lines: list[tuple[Stage, float]]
    where_and_when: str
    """What its prices are."""

    @property
    def usd(self) -> float:
        return sum(usd for _, usd in self.lines)


def bill(stages: Sequence[Stage], place: Place) -> Bill:
    def by_hour(some: Sequence[Stage]) -> plan.Bill:
        return plan.bill(expand(cluster_config.loads(cluster_file(some, place))))

    lines = [(stage, (by_hour([stage]).usd_per_hour_max or 0.0) * stage.deadline_minutes / 60) for stage in stages]
    return Bill(lines, by_hour(stages).where_and_when)
