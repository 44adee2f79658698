"""horovodrun on Gloo: runs on the first node and starts every rank, those elsewhere through what it takes for ssh."""

from __future__ import annotations

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
    programs=("ssh-through-slurm.sh:bin/ssh",),
)
