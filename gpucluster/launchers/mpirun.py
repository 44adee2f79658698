"""mpirun: Open MPI starts every rank, those elsewhere through what it takes for ssh."""

from __future__ import annotations

from gpucluster.launchers.launcher import Launcher

VARIABLES = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
}
"""NODE_RANK and the node's name are set by mpi-rank.sh: Open MPI has no variable for them."""

MPIRUN = Launcher(
    name="mpirun",
    template="mpirun.sh.j2",
    variables=VARIABLES,
    frameworks=("horovod", "tensorflow", "torch", "mxnet"),
    programs=("mpi.sh", "mpi-rank.sh", "ssh-through-slurm.sh:bin/ssh"),
)
