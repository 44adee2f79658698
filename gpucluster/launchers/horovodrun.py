"""horovodrun: runs on the first node and starts every rank, those elsewhere through what it takes for ssh.

Ranks are started and coordinated by Gloo, or by Open MPI; elastic is a form of the first.
"""

from __future__ import annotations

from dataclasses import replace

from gpucluster.launchers import mpirun
from gpucluster.launchers.launcher import Launcher

HOROVODRUN = Launcher(
    name="horovodrun",
    template="horovodrun.sh.j2",
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
OVER_MPI = replace(
    HOROVODRUN, template="horovodrun-mpi.sh.j2", variables=mpirun.VARIABLES, programs=mpirun.MPIRUN.programs
)
ELASTIC = replace(HOROVODRUN, template="horovodrun-elastic.sh.j2", programs=(*HOROVODRUN.programs, "discover-hosts.sh"))
