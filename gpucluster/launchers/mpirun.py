"""mpirun: Open MPI starts every rank, those on other nodes through a stand-in for ssh."""

from __future__ import annotations

from gpucluster.launchers.launcher import Launcher, LaunchRequest

VARIABLES = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
}
"""NODE_RANK and the node's name are set by gpucluster_job/ranks/identity.py: Open MPI has no variable for them."""
DAEMONS = ("--leave-session-attached",)
"""The daemons are tasks of the job, and Slurm ends tasks that leave their session."""


def argv(request: LaunchRequest) -> list[str]:
    """gpucluster_job/mpi.py writes the hostfile, sets Open MPI's variables and replaces itself with mpirun."""
    hosts = [*DAEMONS, "--hostfile", f"{request.folder}/hostfile", "-np", str(request.world_size)]
    return [
        *request.ours("mpi"),
        "mpirun",
        *hosts,
        "--map-by",
        "slot",
        "--bind-to",
        "none",
        *request.hosted_rank("mpi-rank"),
    ]


MPIRUN = Launcher(
    name="mpirun",
    argv=argv,
    variables=VARIABLES,
    frameworks=("horovod", "tensorflow", "torch", "mxnet"),
    programs=("ssh-through-slurm.sh:bin/ssh",),
)
