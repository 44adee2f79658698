"""What a node needs, as text: `bundle(config)` gives every file that a head or compute node boots from.

Pure: reads this project's templates once, writes nothing, knows nothing that a deployment decides. Such values lie in
SSM parameters, which nodes read at boot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jinja2 import Template

from gpucluster import shipped
from gpucluster.config import ClusterConfig
from gpucluster.config.models import JOB_CREDENTIALS_URL
from gpucluster.config.storage import BeegfsRam
from gpucluster.config.storage.fsx import lustre
from gpucluster.hardware import software
from gpucluster.hardware.instances import InstanceType
from gpucluster.layout import Layout, Partition, expand
from gpucluster.render import beegfs, watching

ROOT = shipped.ROOT
BOOTSTRAP = ROOT / "bootstrap"
JOB_USER = "ubuntu"
USABLE_MEMORY = 0.95
"""Of an instance type's memory, what Slurm may count on: kernel and firmware take the rest, and a node with less than
its configuration says is refused."""

_ENVIRONMENT_PROGRAMS = ("build.sh", "cxx17", "environment.sh", "horovod_wheel.sh", "interpreter.sh", "verify.py")
_ACCOUNTING_FILES = {"local": ("mariadb.cnf", "slurmdbd.conf"), "rds": ("slurmdbd.conf",), "off": ()}

Role = Literal["head", "compute", "image"]


def bundle(config: ClusterConfig) -> dict[str, str]:
    """Path inside the bundle -> text."""
    layout = expand(config)
    return {
        "cluster.sh": _template("bootstrap/cluster.sh.j2").render(_node_values(config)),
        "head.sh": _template("bootstrap/head.sh.j2").render(_head_values(layout)),
        "compute.sh": _template("bootstrap/compute.sh.j2").render(_compute_values(layout)),
        **{f"machines/{each.name}.sh": machine(each) for each in layout.machine_types},
        **{f"partitions/{each.name}.sh": partition(each, config.ram) for each in layout.partitions},
        **slurm(layout),
        "fleet.json": json.dumps(fleet(layout), indent=2) + "\n",
        "storage.json": json.dumps(storage(config), indent=2) + "\n",
        "prices.json": json.dumps(prices(layout), indent=2) + "\n",
        **_beegfs(layout),
        **watching.agent_files(config),
        **_verbatim(),
        **_environments(layout),
    }


def machine(type_: InstanceType) -> str:
    """machines/TYPE.sh: what the steps verify or install on such a machine."""
    return _template("bootstrap/machine.sh.j2").render(
        type=type_.name,
        gpus=type_.gpus,
        efa_interfaces=type_.efa_interfaces,
        nvme_gb=type_.nvme_gb,
        nvswitch="yes" if software.has_nvswitch(type_) else "no",
        nvlsm=software.has_nvlink_subnet_manager(type_),
        gdrcopy="yes" if software.uses_gdrcopy(type_) else "no",
        machine=software.machine(type_),
        efa=software.EFA,
        ofi_nccl=software.OFI_NCCL,
        lustre_over_efa="yes" if lustre.over_efa(type_) else "no",
        enroot=software.ENROOT,
        pyxis=software.PYXIS,
        environment=[f"{name}={value}" for name, value in software.job_environment(type_).items()],
    )


def partition(each: Partition, ram: BeegfsRam | None) -> str:
    """partitions/NAME.sh: what the steps of its nodes are told."""
    return _template("bootstrap/partition.sh.j2").render(partition=each, beegfs_role=beegfs.role_of(each, ram))


def environment_places(layout: Layout) -> dict[str, Partition]:
    """Environment -> the partition whose nodes make it: the first with GPUs of those that it is for."""
    found: dict[str, Partition] = {}
    for partition in sorted(layout.partitions, key=lambda each: not each.gpus_per_node):
        for framework in layout.config.software.frameworks:
            if environment := software.environment(framework, partition.types):
                found.setdefault(environment.name, partition)
    return found


def _environments(layout: Layout) -> dict[str, str]:
    """Their locks, who makes them, and where they are kept. `places`: lines of name, partition, whether it has GPUs."""
    places = environment_places(layout)
    lines = (f"{name} {place.name} {int(place.gpus_per_node > 0)}\n" for name, place in sorted(places.items()))
    own = {f"environments/{name}": _environment_file(name) for name in _ENVIRONMENT_PROGRAMS}
    locks = {f"environments/{name}.txt": _environment_file(f"{name}.txt") for name in places}
    cache = f"{layout.config.software.cache or ''}".rstrip("/") + "\n"
    return own | locks | {"environments/places": "".join(lines), "environments/cache": cache}


@cache
def _environment_file(name: str) -> str:
    return (BOOTSTRAP / "environments" / name).read_text()


def version(files: Mapping[str, str]) -> str:
    """16 hex digits over names and contents: the same bundle has the same version everywhere."""
    digest = hashlib.sha256()
    for path, text in sorted(files.items()):
        for part in (path, text):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8))
            digest.update(encoded)
    return digest.hexdigest()[:16]


def user_data(config: ClusterConfig, role: Role) -> str:
    """What an instance runs at its first boot. It says where the bundle is, never what is in it: a changed user data
    would replace the head node."""
    return _template("bootstrap/user-data.sh.j2").render(_node_values(config), role=role)


def image_script(**values: object) -> str:
    """image.sh, of the machine that an image is made of: see `gpucluster.baking`."""
    return _template("bootstrap/image.sh.j2").render(values)


def step(name: str) -> tuple[str, str]:
    """Of a boot step: its path inside a bundle, and its text."""
    (found,) = ((path, text) for path, text in _verbatim().items() if fnmatch(path, f"steps/*/{name}.sh"))
    return found


def library(name: str) -> tuple[str, str]:
    """Of functions that steps share: their path inside a bundle, and their text."""
    path = f"lib/{name}.sh"
    return path, _verbatim()[path]


def fleet(layout: Layout) -> dict[str, Any]:
    """fleet.json: what node programs read of the cluster file. gpucluster_node/fleet.py takes nothing else."""
    config = layout.config
    return {
        "cluster": config.name,
        "zone": config.zone,
        "ssm_path": config.ssm_path,
        "state": config.state_folder,
        "partitions": [
            {key: getattr(each, key) for key in ("name", "min_nodes", "max_nodes", "purchase")}
            for each in layout.partitions
        ],
    }


def storage(config: ClusterConfig) -> dict[str, Any]:
    """storage.json: what nodes mount at boot. Where each lies its SSM parameter says."""
    return {"mounts": [each.told() for each in config.storage if each.at_boot]}


def prices(layout: Layout) -> dict[str, float]:
    """prices.json: instance type -> USD per hour on demand. A type without a known price is left out."""
    prices = ((each.name, each.price_usd_per_hour) for each in layout.machine_types)
    return {name: price for name, price in prices if price is not None}


def _node_values(config: ClusterConfig) -> dict[str, str]:
    return {
        "cluster": config.name,
        "region": config.region,
        "zone": config.zone,
        "ssm_path": config.ssm_path,
        "job_user": JOB_USER,
        "accounting": config.accounting,
        "home_on": config.home.type,
        "data": config.state_folder,
        "job_credentials": JOB_CREDENTIALS_URL if config.s3_access else "",
    }


def _compute_values(layout: Layout) -> dict[str, Any]:
    return {**_node_values(layout.config), "containers": layout.config.software.containers}


def _head_values(layout: Layout) -> dict[str, Any]:
    config = layout.config
    return {
        **_node_values(config),
        "volume_gib": config.head_node.volume_gib,
        "volume": config.volume_mount,
        "partitions": layout.names,
        "beegfs_role": beegfs.role_of_head(config.ram),
    }


def _beegfs(layout: Layout) -> dict[str, str]:
    """What sets up the file system in memory; nothing for a cluster without one."""
    config = layout.config
    ram = config.ram
    if not ram:
        return {}
    values = {**_node_values(config), **beegfs.values(ram)}
    files = beegfs.RELEASES[ram.version].files
    return {
        "beegfs.sh": _template("bootstrap/beegfs.sh.j2").render(values),
        "beegfs.json": json.dumps({**beegfs.node_settings(layout, ram), "owner": JOB_USER}, indent=2) + "\n",
        **{f"beegfs/{name}": _template(f"templates/beegfs/{file}").render(values) for name, file in files.items()},
    }


def slurm(layout: Layout) -> dict[str, str]:
    config = layout.config
    partitions = [slurm_partition(each) for each in layout.partitions]
    staged = bool(config.lustre)
    values = {
        **_node_values(config),
        "partitions": partitions,
        "containers": config.software.containers,
        "staging": staged,
        "always_on": [partition["always_on"] for partition in partitions if partition["always_on"]],
        # Where a partition sets its own this is never used, but power saving is off without it.
        "suspend_time_s": max(partition["suspend_time_s"] for partition in partitions),
        "resume_timeout_s": max(partition["resume_timeout_s"] for partition in partitions),
    }
    names = [
        "slurm.conf",
        "gres.conf",
        "cgroup.conf",
        "image.conf",
        "plugstack.conf",
        *_ACCOUNTING_FILES[config.accounting],
        *(("burst_buffer.conf", "burst_buffer.lua") if staged else ()),
    ]
    return {f"slurm/{name}": _template(f"templates/slurm/{name}.j2").render(values) for name in names}


def slurm_partition(partition: Partition) -> dict[str, Any]:
    """What slurm.conf and gres.conf say of it: the least that any of its types has, since a node that has more is no
    trouble to Slurm."""
    types, gpus = partition.types, partition.gpus_per_node
    model = _gpu_model(types)
    return {
        "name": partition.name,
        "nodes": node_range(partition.name, partition.max_nodes),
        "always_on": node_range(partition.name, partition.min_nodes) if partition.min_nodes else None,
        "cpus": min(instance_type.vcpus for instance_type in types),
        "memory_mib": _memory_mib(partition),
        "gres": ":".join(filter(None, ("gpu", model, str(gpus)))) if gpus else None,
        "gpu_model": model,
        "gpu_files": gpu_files(gpus),
        "suspend_time_s": partition.idle_s,
        "resume_timeout_s": max(instance_type.boots_within_s for instance_type in types),
    }


def _memory_mib(partition: Partition) -> int:
    """What jobs can have: of their nodes' memory, a file system may hold a part."""
    memory_gib = min(instance_type.memory_gib for instance_type in partition.types)
    return max(1, int((memory_gib * USABLE_MEMORY - partition.ram_gib) * 1024))


def node_range(partition: str, count: int) -> str:
    """Nodes 1 to count as Slurm writes them: `train-[1-4]`, and `train-1` for one."""
    return f"{partition}-1" if count == 1 else f"{partition}-[1-{count}]"


def gpu_files(count: int) -> str:
    return "/dev/nvidia0" if count == 1 else f"/dev/nvidia[0-{count - 1}]"


def _gpu_model(types: tuple[InstanceType, ...]) -> str | None:
    """A GRES has a type only where all of the partition's instance types have the same GPU."""
    models = {instance_type.gpu_model for instance_type in types}
    return models.pop() if len(models) == 1 else None


@cache
def _verbatim() -> Mapping[str, str]:
    """Files that nodes get as they are. None is a template: bash's own `${#array[@]}` would open a jinja comment."""
    patterns = ("lib/*.sh", "steps/*/*.sh", "programs/*/*", "gpucluster_node/**/*.py")
    found = (path for pattern in patterns for path in BOOTSTRAP.glob(pattern))
    return {path.relative_to(BOOTSTRAP).as_posix(): path.read_text() for path in sorted(found)}


def _template(path: str) -> Template:
    return shipped.templates(ROOT).get_template(path)
