"""The nodes' files as text: `bundle(config)` returns every file that a head or compute node boots from.

Pure: reads this project's templates once, and writes nothing. Values that only a deployment knows are in SSM
parameters, which nodes read at boot.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from jinja2 import Template

from gpucluster import account, ports, shipped
from gpucluster.config import ClusterConfig
from gpucluster.config.models import JOB_CREDENTIALS_URL, Budget
from gpucluster.config.scripts import minutes
from gpucluster.config.slurm import YIELDED, pairs
from gpucluster.config.storage import BeegfsRam
from gpucluster.config.storage.fsx import lustre
from gpucluster.config.users import BILLING_OF_GPU
from gpucluster.hardware import prices as list_prices
from gpucluster.hardware import software
from gpucluster.hardware.instances import InstanceType
from gpucluster.layout import Layout, Partition, expand
from gpucluster.render import beegfs, proxy, scripts, watching

ROOT = shipped.ROOT
BOOTSTRAP = ROOT / "bootstrap"
JOB_USER = account.ADMINISTRATOR
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
        **_users(config),
        **scripts.files(layout),
        "environment": "".join(f"{name}={value}\n" for name, value in proxy.variables(config).items()),
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
    """machines/TYPE.sh: the software that steps verify or install on this instance type."""
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
    """partitions/NAME.sh: the values for the steps of its nodes."""
    return _template("bootstrap/partition.sh.j2").render(partition=each, beegfs_role=beegfs.role_of(each, ram))


def environment_partitions(layout: Layout) -> dict[str, Partition]:
    """Environment -> the partition whose nodes build it: the first with GPUs among the suitable partitions."""
    found: dict[str, Partition] = {}
    for partition in sorted(layout.partitions, key=lambda each: not each.gpus_per_node):
        for framework in layout.config.software.frameworks:
            if environment := software.environment(framework, partition.types):
                found.setdefault(environment.name, partition)
    return found


def _environments(layout: Layout) -> dict[str, str]:
    """The environments' locks and builders. `partitions`: lines of name, partition, whether it has GPUs. `cache` and
    `packages`: where in S3 environments and jobs' own packages are kept."""
    partitions = environment_partitions(layout)
    lines = (f"{name} {each.name} {int(each.gpus_per_node > 0)}\n" for name, each in sorted(partitions.items()))
    own = {f"environments/{name}": _environment_file(name) for name in _ENVIRONMENT_PROGRAMS}
    locks = {f"environments/{name}.txt": _environment_file(f"{name}.txt") for name in partitions}
    kept = {
        "environments/cache": f"{layout.config.software.cache or ''}".rstrip("/") + "\n",
        "environments/packages": f"{layout.config.packages_cache or ''}\n",
    }
    return own | locks | {"environments/partitions": "".join(lines)} | kept


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


NODES_BUNDLE = "nodes/bundle"
"""The name, below the cluster's path, of the SSM parameter from which compute nodes learn where the bundle is. The head
node's own, `bundle`, also has the URL of CloudFormation's wait condition."""


def user_data(config: ClusterConfig, role: Role) -> str:
    """The script of an instance's first boot. It has the bundle's address but no hash of its content: changed user data
    would replace the head node."""
    parameter = config.ssm_path + (NODES_BUNDLE if role == "compute" else "bundle")
    return _template("bootstrap/user-data.sh.j2").render(
        _node_values(config), role=role, parameter=parameter, proxy=proxy.variables(config)
    )


def image_script(**values: object) -> str:
    """image.sh, for the instance that an image is built on: see `gpucluster.baking`."""
    return _template("bootstrap/image.sh.j2").render(values)


def step(name: str) -> tuple[str, str]:
    """A boot step's path inside a bundle, and its text."""
    (found,) = ((path, text) for path, text in _verbatim().items() if fnmatch(path, f"steps/*/{name}.sh"))
    return found


def library(name: str) -> tuple[str, str]:
    """The path inside a bundle of a file of shared functions, and its text."""
    path = f"lib/{name}.sh"
    return path, _verbatim()[path]


def fleet(layout: Layout) -> dict[str, Any]:
    """fleet.json: the values of the cluster file for node programs. gpucluster_node/fleet.py accepts no others."""
    config, budget = layout.config, layout.config.budget
    return (
        {
            "cluster": config.name,
            "zone": config.zone,
            "ssm_path": config.ssm_path,
            "state": config.state_folder,
            "partitions": [
                {key: getattr(each, key) for key in ("name", "min_nodes", "max_nodes", "purchase")}
                | ({"max_usd_per_hour": each.max_usd_per_hour} if each.max_usd_per_hour else {})
                | ({"reservation_id": each.reservation_id} if each.purchase == "capacity-block" else {})
                | ({"topology": True} if each.topology else {})
                for each in layout.partitions
            ],
        }
        | (_stops(budget) if budget and budget.stops_launches else {})
        | ({"tags": config.tags} if config.tags else {})
    )


def _stops(budget: Budget) -> dict[str, Any]:
    return {"monthly_usd": budget.monthly_usd} | ({"stops_nodes": True} if budget.at_limit == "stop-nodes" else {})


def storage(config: ClusterConfig) -> dict[str, Any]:
    """storage.json: the file systems that nodes mount at boot. An SSM parameter has the address of each."""
    return {"mounts": [each.for_nodes() for each in config.storage if each.at_boot]}


def prices(layout: Layout) -> dict[str, float]:
    """prices.json: instance type -> USD per hour on demand. Types without a known price are missing."""
    found = {each.name: list_prices.usd(each.name, layout.config.region) for each in layout.machine_types}
    return {name: price for name, price in found.items() if price is not None}


def _node_values(config: ClusterConfig) -> dict[str, str]:
    return {
        "cluster": config.name,
        "region": config.region,
        "zone": config.zone,
        "ssm_path": config.ssm_path,
        "job_user": JOB_USER,
        "accounting": config.accounting,
        "home_on": config.home.type,
        "nfs_port": str(ports.NFS),
        "slurmctld_port": str(ports.SLURMCTLD),
        "exporter_port": str(ports.NODE_EXPORTER),
        "exports": "yes" if config.monitoring.exports else "no",
        "data": config.state_folder,
        "job_credentials": JOB_CREDENTIALS_URL if config.jobs_have_role else "",
    }


def _compute_values(layout: Layout) -> dict[str, Any]:
    return {**_node_values(layout.config), "containers": layout.config.software.containers}


def _head_values(layout: Layout) -> dict[str, Any]:
    config = layout.config
    return {
        **_node_values(config),
        "volume_gib": config.head_node.volume_gib,
        **watching.prometheus(config),
        "volume": config.volume_mount,
        "partitions": layout.names,
        "beegfs_role": beegfs.role_of_head(config.ram),
        "scripts_s": minutes(config.head_node.scripts) * 60,
    }


def _beegfs(layout: Layout) -> dict[str, str]:
    """The files that set up BeeGFS in memory; empty for a cluster without it."""
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


def _users(config: ClusterConfig) -> dict[str, str]:
    """Lines of name, uid, three limits and public key; no file for a cluster with one user."""
    lines = [f"{each.name} {each.number} {each.limits} {each.key}".rstrip() + "\n" for each in config.users]
    return {"users": "".join(sorted(lines))} if lines else {}


def slurm(layout: Layout) -> dict[str, str]:
    config = layout.config
    partitions = [slurm_partition(each, allocated=config.slurm.memory == "allocated") for each in layout.partitions]
    staged = bool(config.lustre)
    values = {
        **_node_values(config),
        "slurmd_port": ports.SLURMD,
        "slurmdbd_port": ports.SLURMDBD,
        "srun_ports": "{}-{}".format(*ports.SRUN),
        "partitions": partitions,
        "containers": config.software.containers,
        "memory": config.slurm.memory,
        "lines": {key: getattr(config.slurm, key).strip() for key in ("slurm_conf", "cgroup_conf", "gres_conf")},
        "gres_types": _gres_types(layout),
        "staging": staged,
        "switches": layout.switches,
        "users": bool(config.users),
        "always_on": [partition["always_on"] for partition in partitions if partition["always_on"]],
        # Partitions set their own value, but without this one power saving is off.
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
        *(("topology.conf",) if layout.switches else ()),
    ]
    made = {f"slurm/{name}": _template(f"templates/slurm/{name}.j2").render(values) for name in names}
    made["slurm/slurm.conf"] = _yielding(made["slurm/slurm.conf"], config.slurm.slurm_conf)
    return made


def _yielding(conf: str, theirs: str) -> str:
    """Without our lines of the parameters that the file sets: Slurm's parser calls a second one an error."""
    names = {pair.name.lower() for pair in pairs(theirs)} & {name.lower() for name in YIELDED}
    head, mark, tail = conf.partition("\n# slurm.slurm_conf of the cluster file.\n")
    kept = (line for line in head.split("\n") if line.partition("=")[0].lower() not in names)
    return "\n".join(kept) + mark + tail


def slurm_partition(partition: Partition, *, allocated: bool = False) -> dict[str, Any]:
    """Its lines in slurm.conf and gres.conf, with the minimum over its types: Slurm accepts a node that has more."""
    types, gpus = partition.types, partition.gpus_per_node
    model = _gpu_model(types)
    cpus, threads = min(instance_type.vcpus for instance_type in types), types[0].default_threads
    return {
        "name": partition.name,
        "nodes": node_range(partition.name, partition.max_nodes),
        "always_on": node_range(partition.name, partition.min_nodes) if partition.min_nodes else None,
        "cpus": cpus,
        "cores": cpus // threads,
        "threads_per_core": threads,
        "memory_mib": partition.memory_mib,
        "partition_options": _partition_options(partition, allocated),
        "options": node_options(partition),
        "gres": _gres(partition, model),
        "gpus": gpus,
        "gpu_model": model,
        "gpu_files": gpu_files(gpus),
        "billing": _billing(gpus, cpus) if gpus else None,
        "suspend_time_s": partition.idle_s,
        "resume_timeout_s": max(instance_type.boots_within_s for instance_type in types)
        + minutes(partition.scripts) * 60,
    }


def _partition_options(partition: Partition, allocated: bool) -> dict[str, str]:
    """Those of the file, and ours unless the file has them."""
    theirs, has = dict(partition.partition_options), {name.lower() for name in partition.partition_options}
    ours = {} if "maxtime" in has else {"MaxTime": "INFINITE"}
    if allocated and not has & {"defmempercpu", "defmempernode"}:
        cpus = min(each.vcpus for each in partition.types)
        ours["DefMemPerCPU"] = str(max(1, partition.memory_mib // cpus))
    return ours | theirs


def node_options(partition: Partition) -> dict[str, str]:
    """What its node line has beside the hardware. The feature is the nodes' instance type, if the partition has only
    one: which one of several a node that is off will be, EC2's capacity decides."""
    type_ = partition.types[0].name if len(partition.types) == 1 else None
    found = {name: value for name, value in partition.node_options.items() if name.lower() not in _LISTS}
    theirs = [value for name, value in partition.node_options.items() if name.lower() in ("feature", "features")]
    if features := [*filter(None, [type_]), *theirs]:
        found["Feature"] = ",".join(features)
    return found


_LISTS = ("feature", "features", "gres")
"""Options that are lists, in which the file's values follow ours."""


def _gres(partition: Partition, model: str | None) -> str | None:
    gpus = partition.gpus_per_node
    ours = ":".join(filter(None, ("gpu", model, str(gpus)))) if gpus else ""
    theirs = (value for name, value in partition.node_options.items() if name.lower() == "gres")
    return ",".join(filter(None, (ours, *theirs))) or None


def _gres_types(layout: Layout) -> dict[str, None]:
    """Each once. Slurm forgets a node's resource of another type, without a word (gres.c: gres_name_filter)."""
    options = (item for each in layout.partitions for item in each.node_options.items())
    of_nodes = (value for name, value in options if name.lower() == "gres")
    names = (each.partition(":")[0] for value in of_nodes for each in value.split(","))
    return dict.fromkeys(("gpu", *layout.config.slurm.gres_types, *names))


def _billing(gpus: int, cpus: int) -> str:
    """How much a GPU, a node and a CPU of a partition with GPUs weigh in `max_gpus`. In a partition without weights,
    each CPU weighs 1 (man slurm.conf.5: TRESBillingWeights). Rounded up, because all CPUs of a node must weigh as much
    as its GPUs, and Slurm drops a job's fraction of 1."""
    cpu = math.ceil(BILLING_OF_GPU * gpus / cpus * 1e6) / 1e6
    return f"CPU={cpu:.6f},Node={BILLING_OF_GPU},GRES/gpu={BILLING_OF_GPU}"


def node_range(partition: str, count: int) -> str:
    """Nodes 1 to `count` in Slurm's form: `train-[1-4]`, or `train-1` for one."""
    return f"{partition}-1" if count == 1 else f"{partition}-[1-{count}]"


def gpu_files(count: int) -> str:
    return "/dev/nvidia0" if count == 1 else f"/dev/nvidia[0-{count - 1}]"


def _gpu_model(types: tuple[InstanceType, ...]) -> str | None:
    """The GRES has a type only if all instance types of the partition have the same GPU."""
    models = {instance_type.gpu_model for instance_type in types}
    return models.pop() if len(models) == 1 else None


@cache
def _verbatim() -> Mapping[str, str]:
    """Files that nodes get unchanged. None is a template: bash's `${#array[@]}` would start a jinja comment."""
    patterns = ("lib/*.sh", "steps/*/*.sh", "programs/*/*", "gpucluster_node/**/*.py")
    found = (path for pattern in patterns for path in BOOTSTRAP.glob(pattern))
    return {path.relative_to(BOOTSTRAP).as_posix(): path.read_text() for path in sorted(found)}


def _template(path: str) -> Template:
    return shipped.templates(ROOT).get_template(path)
