"""Fits a job to its cluster: fills in the defaults, and reports everything that does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.hardware import prices, software
from gpucluster.job import (
    administrator,
    arrays,
    chain,
    channels,
    container,
    notices,
    site,
    slurm_keys,
    staging,
    task,
)
from gpucluster.job.command import program
from gpucluster.job.spec import JobSpec, Servers
from gpucluster.launchers import LAUNCHERS, WITH_SERVERS
from gpucluster.layout import Layout, Partition
from gpucluster.meant import did_you_mean

Findings = Iterator[Finding]


def complete(spec: JobSpec, layout: Layout, base: Path = Path()) -> JobSpec:
    """The spec with every default of this cluster. If the partition does not exist, the GPUs stay unset. `base`
    is the folder that the job's paths are relative to."""
    partition = spec.partition or layout.names[0]
    gpus = spec.gpus_per_node
    if gpus is None and partition in layout.names:
        gpus = layout.partition(partition).gpus_per_node
    completed = spec.model_copy(
        update={
            "name": spec.name or default_name(spec),
            "project": task.project_of(spec, base),
            "partition": partition,
            "gpus_per_node": gpus,
            "ntasks_per_node": spec.ntasks_per_node or _one_rank(spec.launcher),
            "servers": _completed_servers(spec),
            "framework": spec.framework or _framework(spec, layout.config),
        }
    )
    return chain.complete(completed, layout.real)


def _one_rank(launcher: str) -> int | None:
    return 1 if launcher in LAUNCHERS and LAUNCHERS[launcher].one_rank_per_node else None


def _completed_servers(spec: JobSpec) -> Servers | None:
    return (spec.servers or Servers()).beside(spec.nodes) if spec.launcher in WITH_SERVERS else spec.servers


def _framework(spec: JobSpec, config: ClusterConfig) -> str | None:
    """The launcher's own framework if the cluster has it. On a cluster without torch, torchrun uses horovod's
    environment, and horovodrun uses tensorflow's, which contains Horovod."""
    had = config.software.frameworks
    usual = LAUNCHERS[spec.launcher].frameworks if spec.launcher in LAUNCHERS else ()
    if "torch" not in had and "tensorflow" in had and "tensorflow" in usual:
        return "tensorflow"
    return next((each for each in usual if each in had), (usual or had or (None,))[0])


def check(spec: JobSpec, layout: Layout) -> Iterator[Finding]:
    """The problems that keep this completed spec from running on this cluster."""
    config = layout.config
    if spec.target != "cluster":
        hint = "`gpucluster submit` of its own file does; or use --on cluster, or remove target"
        yield Finding(("target",), f"a job of this cluster cannot run on {spec.target}", hint)
    partition = layout.partition(spec.partition) if spec.partition in layout.names else None
    if partition:
        yield from _partition(spec, partition)
        yield from _costs(spec, partition, config.region)
    else:
        known = f"known: {', '.join(layout.names)}"
        has = f"the cluster {config.name} has no partition {spec.partition!r}"
        yield Finding(("partition",), has, did_you_mean(spec.partition or "", layout.names, known))
    yield from _launcher(spec, partition, layout)
    yield from _types(spec, partition)
    yield from _horovodrun(spec)
    yield from _servers(spec, layout.servers)
    if layout.site is None:
        yield from _container(spec, partition.image if partition else config.software.image, config)
        yield from administrator.check(spec, config)
    yield from _packages(spec)
    yield from _signal(spec, partition, layout.config)
    yield from elements(spec)
    yield from slurm_keys.check(spec, partition, config)
    yield from task.check(spec, config)
    yield from program.check(spec)
    yield from channels.check(spec, config)
    yield from chain.check(spec, config)
    yield from staging.check(spec, config)
    yield from notices.check(spec, config, foreign=layout.site is not None)


def _partition(spec: JobSpec, partition: Partition) -> Findings:
    name, gpus = partition.name, partition.gpus_per_node
    if spec.nodes > partition.max_nodes:
        most = f"{partition.max_nodes} node{'s' * (partition.max_nodes > 1)}"
        has = f"the partition {name} has at most {most}, got {spec.nodes}"
        yield Finding(("nodes",), has, "ask for fewer, or raise max_nodes in cluster.yaml")
    if (spec.gpus_per_node or 0) > gpus:
        has = (
            f"a node of {name} ({partition.types[0].name}) has {gpus} GPU{'s' * (gpus != 1)}, got {spec.gpus_per_node}"
        )
        yield Finding(("gpus_per_node",), has, "ask for fewer, or choose another partition")
    yield from _efa(spec, partition)


def _costs(spec: JobSpec, partition: Partition, region: str) -> Findings:
    """The head node counts a node that is not launched yet as the partition's most expensive type."""
    limit, highest = partition.max_usd_per_hour, max(prices.usd(each.name, region) or 0.0 for each in partition.types)
    if limit is None or spec.nodes * highest <= limit + 1e-9:
        return
    nodes = f"{spec.nodes} node{'s' * (spec.nodes > 1)} of {partition.name} cost {spec.nodes * highest:.2f} USD an hour"
    why = f"{nodes}, and its max_usd_per_hour is {limit:g}: the job would never start"
    yield Finding(("nodes",), why, f"ask for at most {limit // highest:g}, or raise max_usd_per_hour in cluster.yaml")


def _efa(spec: JobSpec, partition: Partition) -> Findings:
    if spec.efa != "required":
        return
    name, without = partition.name, [kind.name for kind in partition.types if not kind.efa_interfaces]
    if without:
        yield Finding(
            ("efa",),
            f"EFA is required, but the partition {name} has types without EFA: {', '.join(without)}",
            "choose another partition, or efa: auto",
        )
    elif not partition.efa:
        yield Finding(
            ("efa",),
            f"EFA is required, but the partition {name} has `efa: off`",
            "set efa: auto in cluster.yaml",
        )


def _launcher(spec: JobSpec, partition: Partition | None, layout: Layout) -> Findings:
    if spec.launcher not in LAUNCHERS:
        yield Finding(
            ("launcher",),
            f"there is no launcher {spec.launcher!r}",
            did_you_mean(spec.launcher, LAUNCHERS, f"known: {', '.join(LAUNCHERS)}"),
        )
    elif layout.site:
        yield from site.check(spec, layout.site, layout.name)
    elif not container.replaces_environment(spec) and not spec.python and not any(_types(spec, partition)):
        yield from _environment(spec, partition, layout)
    if spec.container_mounts and not spec.container_image:
        yield Finding(("container_mounts",), "needs a container_image", "name the image, or remove the mounts")


def _environment(spec: JobSpec, partition: Partition | None, layout: Layout) -> Findings:
    config, framework, allowed = layout.config, spec.framework, LAUNCHERS[spec.launcher].frameworks
    if framework is None:
        none = f"no environment to run in: software.frameworks of the cluster {config.name} is empty"
        hint = "add a framework there in cluster.yaml, or give --python or --container-image"
        yield Finding(("framework",), none, hint)
    elif allowed and framework not in allowed:
        got = f"{spec.launcher} starts ranks of {' or '.join(allowed)}, got {framework}"
        yield Finding(("framework",), got, "remove it, or choose another launcher")
    elif framework not in config.software.frameworks:
        unlisted = f"which software.frameworks of the cluster {config.name} does not list"
        needed = ("launcher", f"{spec.launcher} needs {framework}, {unlisted}")
        chosen = ("framework", f"there is no environment {framework}, {unlisted}")
        key, missing = needed if framework in allowed[:1] else chosen
        more = f"software: {{frameworks: [{', '.join([*config.software.frameworks, framework])}]}}"
        hint = f"in cluster.yaml, write `{more}` and run `gpucluster up`, or choose another {key}"
        yield Finding((key,), missing, hint)
    else:
        yield from _runs_on(framework, "partition", partition)
        if spec.servers and spec.servers.nodes:
            yield from _runs_on(framework, "servers", layout.servers)


def _runs_on(framework: str, key: str, partition: Partition | None) -> Findings:
    types = partition.types if partition else ()
    if software.environment(framework, types) is None:
        names = ", ".join(each.name for each in types)
        yield Finding(
            (key,),
            f"no environment of {framework} runs on {names}",
            "docs/software.md lists what runs where",
        )


def _types(spec: JobSpec, partition: Partition | None) -> Findings:
    launcher = LAUNCHERS.get(spec.launcher)
    if not launcher or not launcher.types or not partition:
        return
    others = [each.name for each in partition.types if each.name not in launcher.types]
    if others:
        *most, last = launcher.types
        runs_on = f"{launcher.name} runs only on {', '.join(most)} and {last}"
        yield Finding(
            ("launcher",), f"{runs_on}, but the partition {spec.partition} has {others[0]}", launcher.why_these_types
        )


def _horovodrun(spec: JobSpec) -> Findings:
    """Problems of keys that only horovodrun has, or that exclude each other."""
    asked = [key for key, given in (("controller", spec.controller != "gloo"), ("min_nodes", spec.min_nodes)) if given]
    if spec.launcher != "horovodrun":
        for key in asked:
            yield Finding(
                (key,), f"only for horovodrun, got launcher {spec.launcher}", "set launcher: horovodrun, or remove it"
            )
        return
    if len(asked) == 2:
        yield Finding(("min_nodes",), "elastic jobs need Gloo, got controller mpi", "remove controller")
    if (spec.min_nodes or 0) > spec.nodes:
        most = f"the job starts with {spec.nodes} node{'s' * (spec.nodes > 1)}, got {spec.min_nodes}"
        yield Finding(("min_nodes",), most, "raise nodes, or lower min_nodes")


def _servers(spec: JobSpec, servers: Partition | None) -> Findings:
    if spec.servers and spec.launcher not in WITH_SERVERS:
        yield Finding(("servers",), f"only for {' and '.join(WITH_SERVERS)}, got launcher {spec.launcher}", "remove it")
    if spec.launcher == "mxnet-ps" and "PORT" in spec.env:
        yield Finding(("env", "PORT"), "every MXNet process of the job would listen on this port", "use another name")
    asked = (spec.servers.nodes if spec.servers else None) or 0
    workers = spec.nodes if servers and spec.partition == servers.name else 0
    if servers and asked and asked + workers > servers.max_nodes:
        beside = f" beside {workers} for the workers" if workers else ""
        has = f"the partition {servers.name} has at most {servers.max_nodes} nodes, got {asked}{beside}"
        yield Finding(("servers",), has, "ask for fewer, or raise parameter_servers.max_nodes in cluster.yaml")


def _container(spec: JobSpec, image: str, config: ClusterConfig) -> Findings:
    """The user's own AMI may have pyxis even if cluster.yaml does not install it."""
    if spec.container_image and not config.software.containers and not image.startswith("ami-"):
        yield Finding(
            ("container_image",),
            f"the nodes of {spec.partition} cannot run containers: they have no pyxis",
            "set software: {containers: true} in cluster.yaml, or use an AMI that has pyxis",
        )


def _packages(spec: JobSpec) -> Findings:
    for key in ("python", "requirements", "setup"):
        if getattr(spec, key) and spec.container_image:
            yield Finding((key,), "the ranks run in a container, which has its own packages", "add them to its image")
        elif getattr(spec, key) and spec.python and key != "python":
            yield Finding((key,), "the ranks run in the environment that `python` names", "install them there")


def _signal(spec: JobSpec, partition: Partition | None, config: ClusterConfig) -> Findings:
    """Jobs of spot nodes and of Capacity Blocks also get the signal before EC2 terminates the node, and others before
    the budget ends it."""
    ends = partition is not None and partition.purchase in ("spot", "capacity-block")
    budget_ends = config.budget is not None and config.budget.at_limit == "stop-nodes"
    if spec.signal and not spec.time and not (ends or budget_ends):
        yield Finding(("signal",), "is sent before the time limit, which this job lacks", "add a time, such as 2:00:00")


def default_name(spec: JobSpec) -> str:
    """`python examples/digits/train.py --epochs 3` is called train."""
    script = next((word for word in spec.command if word.endswith((".py", ".sh"))), spec.command[0])
    stem = PurePosixPath(script).stem
    if spec.project:  # its task
        return task.own_name(stem, "job")
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in stem)
    return kept.strip(".-_")[:64] or "job"


def elements(spec: JobSpec) -> Findings:
    if spec.sweep and spec.array:
        yield Finding(("array",), "a sweep is already an array", "keep one of the two")
    if spec.max_parallel and not spec.sweep and not spec.array:
        yield Finding(("max_parallel",), "only for a job with a sweep or an array", "leave it out")
    if spec.max_parallel and spec.array and arrays.at_once(spec.array):
        yield Finding(("max_parallel",), "array already sets how many run at a time", "remove one of the two")
    if (asked := arrays.count(spec.sweep)) > arrays.MAX_ELEMENTS:
        combined = " × ".join(f"{len(found)} values of {name}" for name, found in spec.sweep.items())
        yield Finding(("sweep",), f"{combined} are {asked} elements, and {arrays.TOO_MANY}", arrays.FEWER)
    named: dict[str, str] = {}
    for name in spec.sweep:
        if named.setdefault(arrays.variable(name), name) != name:
            same = f"{named[arrays.variable(name)]} and {name} would both be {arrays.variable(name)}"
            yield Finding(("sweep", name), same, "rename one of the two")
    if (spec.sweep or spec.array) and spec.servers and spec.servers.nodes:
        reason = "servers on separate nodes make a heterogeneous job, and Slurm has no arrays of those"
        yield Finding(("servers",), reason, "remove nodes: the servers then run on the workers' nodes")
