"""horovodrun: runs on the first node and starts every rank, those elsewhere through what it takes for ssh.

Ranks are started and coordinated by Gloo, or by Open MPI; elastic is a form of the first.
"""

from __future__ import annotations

from dataclasses import replace

from gpucluster.launchers import mpirun
from gpucluster.launchers.launcher import Launcher, LaunchRequest

PATIENCE = ("--start-timeout", "300", "--disable-cache")
INTERFACE = ("--network-interfaces", "{INTERFACE}")


def argv(request: LaunchRequest) -> list[str]:
    options = ["--gloo", "-np", str(request.world_size), *PATIENCE, *_interface(request), "-H", "{HOSTS}"]
    return [*_with_agent(request), "horovodrun", *options, *request.hosted_rank("rank")]


def over_mpi(request: LaunchRequest) -> list[str]:
    options = ["--mpi", "-np", str(request.world_size), *PATIENCE, *_interface(request), "-H", "{HOSTS}"]
    # ranks/identity.py gives NCCL each node's own interface where this is set
    named = ["HOROVOD_GLOO_IFACE={INTERFACE}"] if request.nodes > 1 else []
    told = [*options, f"--mpi-args={' '.join(mpirun.DAEMONS)}", *request.hosted_rank("mpi-rank")]
    return [*_with_agent(request, *named), *request.ours("mpi"), "horovodrun", *told]


def elastic(request: LaunchRequest) -> list[str]:
    """The job goes on while `min_nodes` of its nodes are there, the first one among them: horovodrun runs there."""
    least = (request.min_nodes or 1) * request.ranks_per_node
    size = ["-np", str(request.world_size), "--min-np", str(least), "--max-np", str(request.world_size)]
    hosts = ["--host-discovery-script", f"bash {request.folder}/discover-hosts.sh"]
    options = [*size, *hosts, *INTERFACE, *PATIENCE, "--elastic-timeout", "600"]
    return [*_with_agent(request), "horovodrun", *options, *request.hosted_rank("rank")]


def _with_agent(request: LaunchRequest, *variables: str) -> list[str]:
    """What it runs as ssh starts a task in this job: Slurm then knows every rank, and ends every rank."""
    return ["env", f"PATH={request.folder}/bin:{{PATH}}", *variables]


def _interface(request: LaunchRequest) -> tuple[str, ...]:
    """Named, or horovodrun probes every interface first; on a single node it wants the loopback that it finds
    itself."""
    return INTERFACE if request.nodes > 1 else ()


HOROVODRUN = Launcher(
    name="horovodrun",
    argv=argv,
    variables={
        "RANK": "HOROVOD_RANK",
        "LOCAL_RANK": "HOROVOD_LOCAL_RANK",
        "WORLD_SIZE": "HOROVOD_SIZE",
        "NODE_RANK": "HOROVOD_CROSS_RANK",
        # horovodrun hands the first node's environment to every rank, SLURMD_NODENAME included
        "GPUCLUSTER_NODE": "HOROVOD_HOSTNAME",
    },
    frameworks=("horovod", "tensorflow"),
    outside_container=True,
    programs=("ssh-through-slurm.sh:bin/ssh",),
)
OVER_MPI = replace(HOROVODRUN, argv=over_mpi, variables=mpirun.VARIABLES)
ELASTIC = replace(HOROVODRUN, argv=elastic, programs=(*HOROVODRUN.programs, "discover-hosts.sh"))
