"""A rank's identity and the environment of its program."""

from __future__ import annotations

import os
from typing import NamedTuple

from gpucluster_job import library, ourselves
from gpucluster_job.exports import assignments
from gpucluster_job.node import NODE_VARIABLES, scratch_folder
from gpucluster_job.ranks import cpus, trackers


class Refused(RuntimeError):
    """Why a rank does not start its program."""


FIRST = ("0", "chief")
"""Labels of the process that writes event files: several in one folder would be one confused run."""


class Identity(NamedTuple):
    label: str
    """The rank's number, or the name of a process that is not a rank."""
    node: str
    is_rank: bool = True
    reads_data: bool = True


def identify(verb: str) -> Identity:
    """A rank's identity from the launcher's variables; sets our own variables in our environment. Raises Refused."""
    if verb == "mpi-rank":
        number_by_nodes()
    rank = own_variables()["RANK"]
    agree_with_slurm()
    return Identity(rank, this_node())


def own_variables() -> os._Environ[str]:
    """Our environment, with the launcher's variables under our names too. Raises Refused."""
    environ = os.environ
    for ours, theirs in (pair.split("=") for pair in environ["GPUCLUSTER_RANK_VARIABLES"].split()):
        if theirs not in environ:
            raise Refused(f"{environ['GPUCLUSTER_LAUNCHER']} has not set {theirs} for this rank")
        environ[ours] = environ[theirs]
    return environ


SLURMS = {
    "SLURM_PROCID": "RANK", "SLURM_LOCALID": "LOCAL_RANK", "SLURM_NODEID": "NODE_RANK",
    "SLURM_NTASKS": "WORLD_SIZE", "SLURM_NPROCS": "WORLD_SIZE", "SLURMD_NODENAME": "GPUCLUSTER_NODE",
}  # fmt: skip
OF_ITS_TASK = (
    "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
)  # fmt: skip


def agree_with_slurm() -> None:
    """Slurm's variables as if it had started this rank itself. Otherwise they are those of the process that did: the
    job's script under horovodrun and mpirun, an agent under torchrun. Some programs ask Slurm first, and would all be
    rank 0. Where Slurm knows only that process and its step, the variable is removed (srun(1), OUTPUT ENVIRONMENT)."""
    environ = os.environ
    if all(environ.get(theirs) == environ.get(ours) for theirs, ours in SLURMS.items()):
        return
    for theirs, ours in SLURMS.items():
        environ[theirs] = environ[ours]
    ranks = environ["RANKS_PER_NODE"]
    environ["SLURM_NTASKS_PER_NODE"], environ["SLURM_TASKS_PER_NODE"] = ranks, ranks
    if int(environ["NUM_NODES"]) > 1:
        environ["SLURM_TASKS_PER_NODE"] = f"{ranks}(x{environ['NUM_NODES']})"
    for theirs in OF_ITS_TASK:
        environ.pop(theirs, None)


def number_by_nodes() -> None:
    """The node's name. Open MPI numbers ranks node by node and does not tell a rank its node: horovodrun passes the
    first node's environment to every rank, SLURMD_NODENAME included."""
    number = int(os.environ["OMPI_COMM_WORLD_RANK"]) // int(os.environ["RANKS_PER_NODE"])
    os.environ["NODE_RANK"] = str(number)
    os.environ["GPUCLUSTER_NODE"] = os.environ["GPUCLUSTER_NODES"].split()[number]


def this_node() -> str:
    """The node's name in Slurm."""
    return os.environ.get("GPUCLUSTER_NODE") or os.uname().nodename.partition(".")[0]


def prepare(identity: Identity) -> dict[str, str]:
    """The program's environment. Raises Refused."""
    environ = os.environ
    environ["GPUCLUSTER_NODE"], environ["PWD"] = identity.node, os.getcwd()
    environ["PATH"] = ":".join(each for each in environ["PATH"].split(":") if each != f"{ourselves.folder()}/bin")
    for name, value in assignments(NODE_VARIABLES):
        environ.setdefault(name, value)
    if int(environ["NUM_NODES"]) > 1:
        use_own_interface(identity.node)
    scratch = f"{scratch_folder()}/jobs/{environ.get('SLURM_JOB_ID', 'none')}"
    if os.path.isdir(scratch):
        environ["GPUCLUSTER_SCRATCH"] = scratch
    if identity.label not in FIRST:
        environ.pop("GPUCLUSTER_TENSORBOARD", None)
    if identity.is_rank:
        check_world()
    if identity.reads_data and os.path.isdir(f"{ourselves.folder()}/channels"):
        environ.update(lists_of_shards())
    report_network(identity.label)
    environ.update(cpus.variables(environ, is_rank=identity.is_rank))
    own = [pair for name in ("env.sh", "secrets.sh") for pair in assignments(f"{ourselves.folder()}/{name}")]
    environment = {**environ, **dict(own)}
    environment.update(trackers.variables(environment, first=identity.label in FIRST))
    if identity.is_rank:
        cpus.bind(environment)
    return environment


def use_own_interface(node: str) -> None:
    """Each node names its own interfaces, because types of one partition may name them differently."""
    from gpucluster_job.network import NetworkError, address_of, interface_of

    try:
        interface = interface_of(address_of(node))
    except NetworkError as error:
        raise Refused(str(error)) from None
    if not os.environ.get("GLOO_SOCKET_IFNAME"):
        os.environ["GLOO_SOCKET_IFNAME"] = interface
    if os.environ.get("HOROVOD_GLOO_IFACE"):
        os.environ["HOROVOD_GLOO_IFACE"] = os.environ["NCCL_SOCKET_IFNAME"] = interface


def check_world() -> None:
    """If a launcher loses sight of some ranks, it starts each as a world of its own, and each trains alone. An elastic
    job has no fixed size."""
    environ = os.environ
    nodes, ranks, world = environ["NUM_NODES"], environ["RANKS_PER_NODE"], environ["WORLD_SIZE"]
    expected = int(nodes) * int(ranks)
    if environ.get("GPUCLUSTER_PREFLIGHT", "off") != "off" and not environ.get("MIN_NODES") and int(world) != expected:
        raise Refused(
            f"this rank got a world size of {world}, expected {nodes} nodes x {ranks} ranks = {expected}; "
            "--preflight off skips this check"
        )


def lists_of_shards() -> dict[str, str]:
    """The channels of this rank, by the variable that names each channel's list."""
    import subprocess

    argv = library.words("channels", "--write-lists")
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines: list[str] = done.stdout.splitlines()
    if done.returncode:
        raise Refused(f"its channels could not be read: {lines[-1] if lines else f'exit code {done.returncode}'}")
    pairs = (line.split(" ", 1) for line in lines if " " in line)
    return {f"GPUCLUSTER_CHANNEL_{name.upper()}": path for name, path in pairs if os.path.isfile(path)}


def report_network(label: str) -> None:
    """Makes NCCL write to a file which network it uses. If the user has asked for a report, it stays where they want
    it."""
    environ, place = os.environ, f"{ourselves.folder()}/nccl"
    if os.path.isdir(place) and not environ.get("NCCL_DEBUG") and not environ.get("NCCL_DEBUG_FILE"):
        environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT", NCCL_DEBUG_FILE=f"{place}/rank-{label}.%p.txt")
