"""A JobSpec as the script that sbatch takes. Pure: the same request gives the same text."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePosixPath

from gpucluster import shipped
from gpucluster.config.models import JOB_CREDENTIALS_URL, PARAMETER_SERVERS
from gpucluster.config.storage import BeegfsRam
from gpucluster.hardware import software
from gpucluster.job import channels, container, preflight, ram, staging
from gpucluster.job.spec import JobSpec
from gpucluster.launchers import Launcher, LaunchRequest, choose
from gpucluster.launchers.launcher import PYTHON
from gpucluster.launchers.steps import LEADING, LEASHED
from gpucluster.layout import Layout, Partition

JOBS = "/home/ubuntu/jobs"
"""On shared storage; a job's folder lies in it."""
ENVIRONMENTS = "/home/gpucluster/envs"
TEMPLATES = shipped.ROOT / "templates" / "job"
PACKAGES = tuple(map(shipped.package, ("gpucluster_job", "gpucluster_train")))
"""They travel with every job: what runs it, and what its ranks' programs find on their PYTHONPATH."""
WIDTH = 110
"""Of the launch line's lines, in characters."""
BEGINNINGS = ("srun", "horovodrun", "mpirun", "bash", PYTHON, LEASHED, LEADING)
EXTENDED = ("PATH", "PYTHONPATH")
"""The job adds to these."""


@dataclass(frozen=True)
class SbatchRequest:
    """What Slurm is asked for, computed; `materialize` is the script."""

    folder: str
    """Absolute, on shared storage."""
    spec: JobSpec
    launcher: Launcher
    environment: str
    """Of the cluster's Python environments, the name of the one that the ranks run in. "" where a container has all, or
    the user has made one."""
    cpus_per_task: int | None
    """None where the job has the nodes to itself: it then has all their CPUs."""
    server_nodes: int = 0
    """Of the partition `ps`: the job's second part. 0 where its servers share the workers' nodes."""
    server_environment: str | None = None
    """Of those nodes, which have no GPUs: MXNet for GPUs does not even load there."""
    preflight: Mapping[str, str] = field(default_factory=dict)
    """What its nodes are held against before the command starts: files of its folder."""
    role_region: str = ""
    """The cluster's, where its jobs have a role on AWS (s3_access): nodes serve its credentials."""

    staging: tuple[str, ...] = ()
    """Lines of the script that tell Slurm which data to load before it has nodes, and to export when it has ended."""

    ram: BeegfsRam | None = None
    """The file system in the memory of its nodes."""
    no_ram: str = ""
    """For its log, where the partition has one for other jobs."""

    @classmethod
    def from_spec(cls, spec: JobSpec, layout: Layout, folder: str) -> SbatchRequest:
        """`spec` is one that `load` has completed and found to fit."""
        config, partition = layout.config, layout.partition(spec.partition or "")
        launcher = choose(spec.launcher, spec.controller, elastic=spec.min_nodes is not None)
        cpus = (
            None
            if spec.exclusive
            else _cpus(spec, partition) // (spec.ranks_per_node if launcher.slurm_starts_ranks else 1)
        )
        environment = _environment_on(spec, partition)
        cpus = cpus if cpus is None else max(1, cpus)
        looked_at, own = preflight.files(spec, layout), _server_nodes(spec, layout)
        for_servers = _environment_on(spec, layout.servers) if own and layout.servers else None
        staged = staging.directives(spec, config, folder)
        role_region = config.region if config.s3_access else ""
        in_memory, none = ram.of(spec, config), ram.missing(spec, config)
        return cls(
            folder, spec, launcher, environment, cpus, own, for_servers, looked_at, role_region, staged, in_memory, none
        )

    @property
    def environments(self) -> tuple[str, ...]:
        """All that must be there before it starts."""
        return tuple(dict.fromkeys(filter(None, (self.environment, self.server_environment))))

    @property
    def tasks_per_node(self) -> int:
        """Slurm's tasks, which are ranks only where Slurm starts the ranks."""
        return self.spec.ranks_per_node if self.launcher.slurm_starts_ranks else 1

    @property
    def summary(self) -> str:
        ranks, nodes = self.spec.world_size, self.spec.nodes
        workers = f"{_counted(ranks, 'rank')} on {_counted(nodes, 'node')} of {self.spec.partition}"
        if not self.num_servers:
            return workers
        own = f"{self.server_nodes} of {PARAMETER_SERVERS}" if self.server_nodes else "the same nodes"
        return f"{workers}, {_counted(self.num_servers, 'server')} on {own}"

    @property
    def num_servers(self) -> int:
        servers = self.spec.servers
        return (servers.nodes or self.spec.nodes) * servers.per_node if servers else 0

    @property
    def launch_lines(self) -> list[str]:
        """The launcher's argv as a shell reads it; each program that it starts begins a line."""
        lines, before = [""], ""
        for word in map(shlex.quote, self.launcher.argv(self._launch_request())):
            begins = word in BEGINNINGS and before not in BEGINNINGS
            if lines[-1] and (begins or len(lines[-1]) + len(word) >= WIDTH):
                lines.append("")
            lines[-1] += f" {word}" if lines[-1] else word
            before = word
        return lines

    def _launch_request(self) -> LaunchRequest:
        spec = self.spec
        return LaunchRequest(
            folder=self.folder,
            nodes=spec.nodes,
            ranks_per_node=spec.ranks_per_node,
            min_nodes=spec.min_nodes,
            servers=self.num_servers,
            server_nodes=self.server_nodes,
            container_image=container.image_of(spec.container_image or ""),
            module_folder=_module_folder(spec.command),
        )

    def materialize(self) -> str:
        """Made line by line: a template's engine, loaded and compiled for this one file, would take submit an eighth of
        its time."""
        return "".join(f"{line}\n" for line in _script(self))

    def files(self) -> Mapping[str, str]:
        """Everything that the script expects in its folder, by relative path."""
        own = {"env.sh": self.environment_file()} if self.spec.env else {}
        metrics = {"metrics.json": json.dumps(self.spec.metrics) + "\n"} if self.spec.metrics else {}
        asked = {**own, **metrics, **self.preflight, **channels.files(self.spec)}
        return {"job.sbatch": self.materialize(), **asked, **_programs(self.spec, self.launcher), **_packages()}

    def environment_file(self) -> str:
        """What each rank's program is given at last: a container's image may have variables of such names."""
        given = ((name, value) for name, value in self.spec.env.items() if name not in EXTENDED)
        return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in given)


def folder_name(spec: JobSpec, now: datetime | None = None) -> str:
    """`digits-20261121-120000-4f1a`: sorts by time, and two submissions in one second differ."""
    return f"{spec.name}-{(now or datetime.now(UTC)):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def folder_path(name: str) -> str:
    return f"{JOBS}/{name}"


def _environment_on(spec: JobSpec, partition: Partition) -> str:
    if container.replaces_environment(spec) or spec.python:
        return ""
    environment = software.environment(spec.framework or "", partition.types)
    if environment is None:
        raise ValueError(f"no environment of {spec.framework} on {partition.name}: `load` refuses this")
    return environment.name


def _server_nodes(spec: JobSpec, layout: Layout) -> int:
    """A cluster without nodes for servers has them on the workers' nodes, as many as were asked for."""
    return (spec.servers.nodes or 0) if spec.servers and layout.servers else 0


def _cpus(spec: JobSpec, partition: Partition) -> int:
    """A node's share: as many of its CPUs as the job takes of its GPUs."""
    kind = partition.types[0]
    return (
        kind.vcpus * (spec.gpus_per_node or 0) // kind.gpus if kind.gpus and spec.gpus_per_node else spec.ranks_per_node
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


def _script(request: SbatchRequest) -> Iterator[str]:
    spec = request.spec
    size = f"{_counted(spec.world_size, 'rank')} on {_counted(spec.nodes, 'node')}"
    yield "#!/usr/bin/env bash"
    yield f"# {spec.name}: {size}, started by {spec.launcher}. Made from the job.yaml beside it."
    yield from (f"#SBATCH {option}" for option in _options(request))
    yield from request.staging
    if request.server_nodes:
        servers = _part(spec, PARAMETER_SERVERS, request.server_nodes, spec.servers.per_node if spec.servers else 1, 1)
        yield from (f"#SBATCH {option}" for option in ("hetjob", *servers))
    yield "set -euo pipefail"
    yield ""
    yield from _job_variables(request)
    yield from _place(request)
    yield from _program_variables(request)
    yield ""
    yield (
        "# The launcher with its options, then the command of the ranks. "
        "In the place of {NAMES} comes what only this node knows."
    )
    yield f"exec {PYTHON} -IS {shlex.quote(request.folder)}/lib/gpucluster_job job \\"
    yield from (f"  {line} \\" for line in request.launch_lines)
    yield f"  -- {shlex.join(spec.command)}"


def _options(request: SbatchRequest) -> Iterator[str]:
    spec = request.spec
    yield from _part(
        spec, spec.partition, spec.nodes, request.tasks_per_node, request.cpus_per_task, spec.gpus_per_node
    )
    if spec.min_nodes:
        yield "--no-kill"
    if spec.signal:
        yield f"--signal=B:{spec.signal}"
    yield f"--chdir={request.folder}/code"
    yield f"--output={request.folder}/log.txt"
    yield "--open-mode=append"
    yield from spec.sbatch_args


def _part(
    spec: JobSpec, partition: str | None, nodes: int, tasks: int, cpus_per_task: int | None, gpus: int | None = None
) -> Iterator[str]:
    """Of a job: it has a second one where its servers have nodes of their own. `tasks` and `gpus`: on each node."""
    yield f"--job-name={spec.name}"
    yield f"--partition={partition}"
    yield f"--nodes={nodes}"
    yield f"--ntasks-per-node={tasks}"
    if gpus:
        yield f"--gres=gpu:{gpus}"
    yield from ("--exclusive", "--mem=0") if spec.exclusive else (f"--cpus-per-task={cpus_per_task}",)
    if spec.time:
        yield f"--time={spec.time}"
    yield "--requeue" if spec.requeue else "--no-requeue"


def _job_variables(request: SbatchRequest) -> Iterator[str]:
    """What the job's own programs are told of it."""
    spec, launcher = request.spec, request.launcher
    variables = " ".join(f"{ours}={theirs}" for ours, theirs in launcher.variables.items())
    per_node = f"GPUS_PER_NODE={spec.gpus_per_node or 0} RANKS_PER_NODE={spec.ranks_per_node}"
    yield f"export GPUCLUSTER_JOB_DIR={shlex.quote(request.folder)}"
    yield f"export GPUCLUSTER_LAUNCHER={spec.launcher}"
    yield f"export GPUCLUSTER_RANK_VARIABLES='{variables}'"
    yield f"export NUM_NODES={spec.nodes} {per_node}"
    yield f"export GPUCLUSTER_PREFLIGHT={spec.preflight}"
    if launcher.roles:
        yield f"export NUM_SERVERS={request.num_servers} NUM_SERVER_NODES={request.server_nodes}"
    if launcher.roles and request.server_environment:
        yield f"GPUCLUSTER_SERVER_PATH={_programs_of(request.server_environment)}"
        yield "export GPUCLUSTER_SERVER_PATH"


def _place(request: SbatchRequest) -> Iterator[str]:
    """The container or the environment that the ranks run in."""
    spec = request.spec
    if spec.container_image:
        image = shlex.quote(container.image_of(spec.container_image))
        mounts = shlex.quote(",".join((*spec.container_mounts, *channels.mounts(spec))))
        yield f"export CONTAINER_IMAGE={image} CONTAINER_MOUNTS={mounts}"
    if request.environment:
        yield "# not by its link, which an update of the cluster may turn to another while the job runs"
        yield f"PATH={_programs_of(request.environment)}:$PATH"
    if spec.python:
        yield f"export GPUCLUSTER_PYTHON={shlex.quote(spec.python)}"
        yield "PATH=$GPUCLUSTER_PYTHON/bin:$PATH"


def _programs_of(environment: str) -> str:
    return f"$(readlink -m {ENVIRONMENTS}/{environment})/bin"


def _program_variables(request: SbatchRequest) -> Iterator[str]:
    """What the ranks' programs are given: the job's own variables come after the cluster's."""
    spec, ram = request.spec, request.ram
    yield "export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1"
    if region := request.role_region:
        yield (
            "# the role of s3_access: AWS's SDKs ask the node they run on for its credentials, "
            "where the job brings none of its own"
        )
        yield f"export AWS_CONTAINER_CREDENTIALS_FULL_URI={JOB_CREDENTIALS_URL}"
        yield f"export AWS_REGION={region} AWS_DEFAULT_REGION={region}"
    if spec.efa == "required":
        yield "# NCCL stops, rather than going over TCP, where its EFA plug-in does not load"
        yield "export NCCL_NET='AWS Libfabric' FI_PROVIDER=efa"
    for name, value in spec.env.items():
        yield f"export {name}={shlex.quote(value)}" + (":$PATH" if name == "PATH" else "")
    yield "# gpucluster_train, behind whatever the job brings along itself"
    yield "export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$GPUCLUSTER_JOB_DIR/lib"
    if spec.min_nodes:
        yield f"export MIN_NODES={spec.min_nodes}"
    if ram:
        yield f"export GPUCLUSTER_RAM={shlex.quote(ram.mount)} GPUCLUSTER_RAM_EXPORT={shlex.quote(ram.export or '')}"
    if request.no_ram:
        yield f"echo {shlex.quote(request.no_ram)}"


def _programs(spec: JobSpec, launcher: Launcher) -> dict[str, str]:
    names = (*container.programs(spec), *preflight.programs(spec), *launcher.programs)
    sources = [program.partition(":") for program in names]
    return {target or name: (TEMPLATES / name).read_text(encoding="utf-8") for name, _, target in sources}


@cache
def _packages() -> Mapping[str, str]:
    found = ((package, path) for package in PACKAGES for path in sorted(package.rglob("*.py")))
    return {f"lib/{path.relative_to(package.parent)}": path.read_text(encoding="utf-8") for package, path in found}


def _module_folder(command: tuple[str, ...]) -> str:
    """Where the program is."""
    return next((str(PurePosixPath(word).parent) for word in command if word.endswith(".py")), ".")
