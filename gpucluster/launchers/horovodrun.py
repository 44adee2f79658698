"""horovodrun: runs on the first node and starts every rank, those on other nodes through a stand-in for ssh.

Gloo or Open MPI starts and coordinates the ranks. Elastic jobs need Gloo.
"""

from __future__ import annotations

from gpucluster.launchers import mpirun
from gpucluster.launchers.launcher import Launcher, LaunchRequest

PATIENCE = ("--start-timeout", "300", "--disable-cache")
INTERFACE = ("--network-interfaces", "{INTERFACE}")


def argv(request: LaunchRequest) -> list[str]:
    options = ["--gloo", "-np", str(request.world_size), *PATIENCE, *_interface(request), "-H", "{HOSTS}"]
    return [*_with_agent(request), "horovodrun", *options, *request.hosted_rank("rank")]


def over_mpi(request: LaunchRequest) -> list[str]:
    options = ["--mpi", "-np", str(request.world_size), *PATIENCE, *_interface(request), "-H", "{HOSTS}"]
    # if this is set, ranks/identity.py gives NCCL each node's own interface
    named = ["HOROVOD_GLOO_IFACE={INTERFACE}"] if request.nodes > 1 else []
    arguments = [*options, f"--mpi-args={' '.join(mpirun.DAEMONS)}", *request.hosted_rank("mpi-rank")]
    return [*_with_agent(request, *named), *request.ours("mpi"), "horovodrun", *arguments]


def elastic(request: LaunchRequest) -> list[str]:
    """The job continues while `min_nodes` of its nodes are left, including the first, where horovodrun runs. horovodrun
    first waits for `-np` ranks, which are fewer if the job starts it again."""
    least = (request.min_nodes or 1) * request.ranks_per_node
    size = ["-np", "{RANKS}", "--min-np", str(least), "--max-np", str(request.world_size)]
    hosts = ["--host-discovery-script", f"bash {request.folder}/discover-hosts.sh"]
    options = [*size, *hosts, *INTERFACE, *PATIENCE, "--elastic-timeout", "600"]
    return [*_with_agent(request), "horovodrun", *options, *request.hosted_rank("rank")]


def _with_agent(request: LaunchRequest, *variables: str) -> list[str]:
    """The stand-in for ssh starts a task of this job, so Slurm knows every rank and ends every rank."""
    return ["env", f"PATH={request.folder}/bin:{{PATH}}", *variables]


def _interface(request: LaunchRequest) -> tuple[str, ...]:
    """Without a name, horovodrun probes every interface first. On a single node it needs the loopback, which it
    finds itself."""
    return INTERFACE if request.nodes > 1 else ()


HOROVODRUN = Launcher(
    name="horovodrun",
    argv=argv,
    variables={
        "RANK": "HOROVOD_RANK",
        "LOCAL_RANK": "HOROVOD_LOCAL_RANK",
        "WORLD_SIZE": "HOROVOD_SIZE",
        "NODE_RANK": "HOROVOD_CROSS_RANK",
        # horovodrun passes the first node's environment to every rank, including SLURMD_NODENAME
        "GPUCLUSTER_NODE": "HOROVOD_HOSTNAME",
    },
    frameworks=("horovod", "tensorflow"),
    outside_container=True,
    programs=("ssh-through-slurm.sh:bin/ssh",),
)
OVER_MPI = HOROVODRUN._replace(argv=over_mpi, variables=mpirun.VARIABLES)
ELASTIC = HOROVODRUN._replace(argv=elastic, programs=(*HOROVODRUN.programs, "discover-hosts.sh"))
