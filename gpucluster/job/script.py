"""Turns a JobSpec into the script for sbatch. Pure: the same request gives the same text."""

import os
import posixpath
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from gpucluster import account, shipped
from gpucluster.config.models import JOB_CREDENTIALS_URL
from gpucluster.config.nodes import PARAMETER_SERVERS
from gpucluster.config.storage import BeegfsRam
from gpucluster.hardware import software
from gpucluster.job import (
    arrays,
    chain,
    channels,
    container,
    events,
    library,
    notices,
    preflight,
    ram,
    reserved,
    slurm_keys,
    staging,
)
from gpucluster.job.spec import JobSpec, seconds_of
from gpucluster.launchers import Launcher, LaunchRequest, choose
from gpucluster.launchers.launcher import PYTHON
from gpucluster.launchers.steps import LEADING, LEASHED
from gpucluster.layout import Layout, Partition, Site

ENVIRONMENTS = "/home/gpucluster/envs"
TEMPLATES = shipped.ROOT / "templates" / "job"
WIDTH = 110
"""Maximum width of the launch command's lines, in characters."""
HANG_TIMEOUT = "GPUCLUSTER_HANG_TIMEOUT"
"""Seconds. `gpucluster why` reads this line of the script."""
BEGINNINGS = frozenset(("srun", "horovodrun", "mpirun", "bash", PYTHON, LEASHED, LEADING))
EXTENDED = ("PATH", "PYTHONPATH")
"""The job adds to these."""


class SbatchRequest(NamedTuple):
    """The request to Slurm, with all values computed; `materialize` writes the script."""

    folder: str
    """Absolute, on shared storage."""
    spec: JobSpec
    launcher: Launcher
    environment: str
    """The name of the cluster's Python environment for the ranks. "" if they run in a container or in the user's own
    environment."""
    cpus_per_task: int | None
    """CPUs of each Slurm task. None if the job has the nodes to itself and sets none: it then has all their CPUs."""
    server_nodes: int = 0
    """Nodes of the partition `ps`, the job's second part. 0 if its servers share the workers' nodes."""
    server_environment: str | None = None
    """The environment for those nodes, which have no GPUs: MXNet for GPUs cannot even be loaded there."""
    expected: Mapping[str, object] = MappingProxyType({})
    """The expected state of its nodes, for the checks before the command starts."""
    role_region: str = ""
    """The cluster's region, if its jobs have a role on AWS: nodes serve its credentials."""

    staging: tuple[str, ...] = ()
    """Lines of the script: the data that Slurm loads before the job gets nodes, and exports after it ended."""

    ram: BeegfsRam | None = None
    """The file system in the memory of the job's nodes."""
    no_ram: str = ""
    """A line for the log if only other jobs of the partition get that file system."""
    site: Site | None = None
    """The cluster, if we did not build it."""
    cluster: str = ""
    """Its full name."""
    events: str = ""
    """Where in S3 TensorBoard's event files are copied to."""

    @classmethod
    def from_spec(cls, spec: JobSpec, layout: Layout, folder: str) -> "SbatchRequest":
        """`spec` has been completed and checked by `load`. Its partition and its file systems are found here, once."""
        config, partition = layout.config, layout.partition(spec.partition or "")
        launcher = choose(spec.launcher, spec.controller, elastic=spec.min_nodes is not None)
        cpus, server_nodes = _cpus(spec, partition), _server_nodes(spec, layout)
        if cpus and launcher.slurm_starts_ranks:
            cpus = max(1, cpus // spec.ranks_per_node)
        in_memory, no_memory = ram.offered(spec, config), ram.refusal(spec)
        on_lustre = staging.uses(spec, config, in_memory)
        return cls(
            folder,
            spec,
            launcher,
            environment=_environment_on(spec, partition),
            cpus_per_task=cpus,
            server_nodes=server_nodes,
            server_environment=_environment_on(spec, layout.servers) if server_nodes and layout.servers else None,
            expected=preflight.expected(spec, layout, partition, on_lustre),
            role_region=config.region if config.jobs_have_role else "",
            staging=staging.directives(spec, config, folder, on_lustre, in_memory),
            ram=None if no_memory else in_memory,
            no_ram=f"[ram] there is no {in_memory.mount}: {no_memory}" if in_memory and no_memory else "",
            site=layout.site,
            cluster=config.full_name,
            events=events.place(spec, config, folder),
        )

    def real(self, path: str) -> str:
        """As `Layout.real`."""
        return self.site.real(path) if self.site else path

    @property
    def environments(self) -> tuple[str, ...]:
        """All environments that must exist before the job starts."""
        return tuple(dict.fromkeys(filter(None, (self.environment, self.server_environment))))

    @property
    def tasks_per_node(self) -> int:
        """Slurm's tasks, which are the ranks only if Slurm starts the ranks."""
        return self.spec.ranks_per_node if self.launcher.slurm_starts_ranks else 1

    @property
    def summary(self) -> str:
        ranks, nodes, elements = self.spec.world_size, self.spec.nodes, len(self.spec.elements)
        each = f"{_counted(elements, 'element')} of " if elements else ""
        workers = f"{each}{_counted(ranks, 'rank')} on {_counted(nodes, 'node')} of {self.spec.partition}"
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
        """The launcher's argv in shell syntax; each program that it starts begins a new line."""
        lines, line, before = list[str](), "", ""
        for word in map(shlex.quote, self.launcher.argv(self._launch_request())):
            begins = word in BEGINNINGS and before not in BEGINNINGS
            if line and (begins or len(line) + len(word) >= WIDTH):
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
            before = word
        return [*lines, line]

    def _launch_request(self) -> LaunchRequest:
        spec = self.spec
        return LaunchRequest(
            folder="{GPUCLUSTER_JOB_DIR}" if spec.elements else self.folder,
            nodes=spec.nodes,
            ranks_per_node=spec.ranks_per_node,
            min_nodes=spec.min_nodes,
            servers=self.num_servers,
            server_nodes=self.server_nodes,
            container_image=container.image_of(spec.container_image or ""),
            module_folder=_module_folder(spec.command),
        )

    def materialize(self) -> str:
        """Written line by line: loading a template engine for this one file would take an eighth of submit's
        time."""
        return "".join(f"{line}\n" for line in _script(self))

    def files(self) -> Mapping[str, str]:
        """All files that the script expects in its folder, by relative path."""
        import json

        own = {"env.sh": _exports(self.spec, lambda name: name not in EXTENDED)} if self.spec.env else {}
        if loader := _exports(self.spec, reserved.only_for_programs):
            own["loader.sh"] = loader
        metrics = {"metrics.json": json.dumps(self.spec.metrics) + "\n"} if self.spec.metrics else {}
        expected = {"preflight/expected.json": json.dumps(self.expected) + "\n"}
        asked = {**own, **metrics, **expected, **channels.files(self.spec), **chain.files(self.spec, self.real)}
        return {"job.sbatch": self.materialize(), **asked, **_programs(self.spec, self.launcher), **library.files()}


def _exports(spec: JobSpec, chosen: Callable[[str], bool]) -> str:
    """env.sh: variables that are set last for each rank, because a container's image may set variables of the same
    name. loader.sh: those that the job's own programs do not get."""
    given = ((name, value) for name, value in spec.env.items() if chosen(name))
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in given)


def folder_name(spec: JobSpec, now: datetime | None = None) -> str:
    """`digits-20261121-120000-4f1a`: sorts by time, and two submissions in one second differ."""
    return f"{spec.name}-{(now or datetime.now(UTC)):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def folder_path(name: str) -> str:
    return f"{account.jobs()}/{name}"


def _environment_on(spec: JobSpec, partition: Partition) -> str:
    if container.replaces_environment(spec) or spec.python:
        return ""
    environment = software.environment(spec.framework or "", partition.types)
    if environment is None:
        raise ValueError(f"no environment of {spec.framework} on {partition.name}: `load` refuses this")
    return environment.name


def _server_nodes(spec: JobSpec, layout: Layout) -> int:
    """A cluster without nodes for servers runs the requested number of servers on the workers' nodes."""
    return (spec.servers.nodes or 0) if spec.servers and layout.servers else 0


def _cpus(spec: JobSpec, partition: Partition) -> int | None:
    """CPUs on each node; None: all. A job with a part of a node's GPUs gets the same part of its CPUs."""
    if spec.cpus_per_task:
        return spec.cpus_per_task * spec.ranks_per_node
    if spec.exclusive:
        return None
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
        per_node, cpus = (spec.servers.per_node if spec.servers else 1), (None if spec.exclusive else 1)
        servers = _part(spec, PARAMETER_SERVERS, request.server_nodes, per_node, cpus, _all_memory(spec))
        yield from (f"#SBATCH {option}" for option in ("hetjob", *servers))
    yield "set -euo pipefail"
    yield ""
    yield from _job_variables(request)
    yield from _place(request)
    yield from _program_variables(request)
    yield ""
    yield (
        "# The launcher with its options, then the ranks' command. "
        "The job's first node replaces each {NAME} with its own value."
    )
    yield f"exec {PYTHON} -IS {shlex.quote(request.folder)}/lib/gpucluster_job job \\"
    yield from (f"  {line} \\" for line in request.launch_lines)
    yield f"  -- {shlex.join(arrays.command(spec.command, spec.sweep))}"


def _options(request: SbatchRequest) -> Iterator[str]:
    spec = request.spec
    tasks, cpus = request.tasks_per_node, request.cpus_per_task
    mem = None if spec.mem_per_gpu else spec.mem or _all_memory(spec)
    yield from _part(spec, spec.partition, spec.nodes, tasks, cpus, mem, spec.gpus_per_node)
    yield from slurm_keys.passed_on(spec, "workers")
    if spec.min_nodes:
        yield "--no-kill"
    if spec.signal:
        yield f"--signal=B:{spec.signal}"
    yield f"--chdir={request.folder}/code"
    if spec.elements:
        yield arrays.option(spec.elements, spec.elements_at_once)
    yield f"--output={request.folder}/{'%a/' if spec.elements else ''}log.txt"
    yield "--open-mode=append"
    if spec.notify:
        yield f"--mail-type={notices.MAIL_TYPES}"
    yield from spec.sbatch_args


def _part(
    spec: JobSpec,
    partition: str | None,
    nodes: int,
    tasks: int,
    cpus_per_task: int | None,
    mem: str | None,
    gpus: int | None = None,
) -> Iterator[str]:
    """One part of a job: a job whose servers have separate nodes has two. `tasks` and `gpus` are per node."""
    yield f"--job-name={spec.name}"
    yield f"--partition={partition}"
    yield f"--nodes={nodes}"
    yield f"--ntasks-per-node={tasks}"
    if gpus:
        yield f"--gres=gpu:{gpus}"
    if spec.exclusive:
        yield "--exclusive"
    if mem:
        yield f"--mem={mem}"
    if cpus_per_task:
        yield f"--cpus-per-task={cpus_per_task}"
    yield from slurm_keys.passed_on(spec, "each part")
    if spec.time:
        yield f"--time={spec.time}"
    yield "--requeue" if spec.requeue else "--no-requeue"


def _all_memory(spec: JobSpec) -> str | None:
    """0: what of a node's memory a job gets unless it asks, if it has the node to itself."""
    return "0" if spec.exclusive else None


def _job_variables(request: SbatchRequest) -> Iterator[str]:
    """Variables for the job's own programs."""
    spec, launcher = request.spec, request.launcher
    variables = " ".join(f"{ours}={theirs}" for ours, theirs in launcher.variables.items())
    per_node = f"GPUS_PER_NODE={spec.gpus_per_node or 0} RANKS_PER_NODE={spec.ranks_per_node}"
    folder = shlex.quote(request.folder)
    if spec.elements:
        yield f"export GPUCLUSTER_ARRAY_DIR={folder} GPUCLUSTER_JOB_DIR={folder}/$SLURM_ARRAY_TASK_ID"
    else:
        yield f"export GPUCLUSTER_JOB_DIR={folder}"
    yield f"export GPUCLUSTER_LAUNCHER={spec.launcher}"
    yield f"export GPUCLUSTER_RANK_VARIABLES='{variables}'"
    yield f"export NUM_NODES={spec.nodes} {per_node}"
    yield f"export GPUCLUSTER_PREFLIGHT={spec.preflight}"
    if spec.hang_timeout:
        yield f"export {HANG_TIMEOUT}={seconds_of(spec.hang_timeout)}"
    if spec.binding == "none":
        yield "export GPUCLUSTER_BINDING=none"
    if spec.output:
        yield f"export GPUCLUSTER_OUTPUT={shlex.quote(spec.output)}"
    if launcher.roles:
        yield f"export NUM_SERVERS={request.num_servers} NUM_SERVER_NODES={request.server_nodes}"
    if launcher.roles and request.server_environment:
        yield f"GPUCLUSTER_SERVER_PATH={_programs_of(request.server_environment)}"
        yield "export GPUCLUSTER_SERVER_PATH"


def _place(request: SbatchRequest) -> Iterator[str]:
    """Variables that name the container or the environment of the ranks."""
    spec = request.spec
    if spec.container_image:
        image = shlex.quote(container.image_of(spec.container_image))
        own = (*channels.mounts(spec), *chain.mounts(spec, request.real))
        mounts = shlex.quote(",".join((*spec.container_mounts, *own)))
        yield f"export CONTAINER_IMAGE={image} CONTAINER_MOUNTS={mounts}"
    if request.environment:
        yield "# the folder behind the link: an update of the cluster may change the link while the job runs"
        yield f"PATH={_programs_of(request.environment)}:$PATH"
    if spec.python:
        yield f"export GPUCLUSTER_PYTHON={shlex.quote(spec.python)}"
        yield "PATH=$GPUCLUSTER_PYTHON/bin:$PATH"


def _programs_of(environment: str) -> str:
    return f"$(readlink -m {ENVIRONMENTS}/{environment})/bin"


def _program_variables(request: SbatchRequest) -> Iterator[str]:
    """Variables for the ranks' programs: the job's own come after the cluster's."""
    spec, ram = request.spec, request.ram
    yield "export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1"
    if request.launcher.slurm_starts_ranks and spec.gpus_per_node and spec.exclusive and spec.binding == "numa":
        yield "# srun does not divide the CPUs in an order of its own: each rank takes those near its GPU"
        yield "export SLURM_CPU_BIND=none"
    if region := request.role_region:
        yield ("# the jobs' role: AWS's SDKs get its credentials from their node if the job has none of its own")
        yield f"export AWS_CONTAINER_CREDENTIALS_FULL_URI={JOB_CREDENTIALS_URL}"
        yield f"export AWS_REGION={region} AWS_DEFAULT_REGION={region}"
    if spec.efa == "required":
        yield "# NCCL fails instead of using TCP if its EFA plug-in does not load"
        yield "export NCCL_NET='AWS Libfabric' FI_PROVIDER=efa"
    if spec.hang_timeout:
        yield "# a rank that hangs gets SIGABRT, and Python then prints where each of its threads stands"
        yield "export PYTHONFAULTHANDLER=1"
        yield "# Horovod's warnings about stalled ranks would count as output"
        yield "export HOROVOD_STALL_CHECK_DISABLE=1"
    own = ((name, value) for name, value in spec.env.items() if not reserved.only_for_programs(name))
    for name, value in own:
        yield f"export {name}={shlex.quote(value)}" + (":$PATH" if name == "PATH" else "")
    for name, folder in chain.variables(spec, request.real).items():
        yield f"export {name}={shlex.quote(folder)}"
    yield "# gpucluster_train, after the job's own packages"
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


def _module_folder(command: tuple[str, ...]) -> str:
    """The folder of the program."""
    return next((posixpath.dirname(word) or "." for word in command if word.endswith(".py")), ".")
