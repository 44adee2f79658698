"""srun: Slurm starts each rank itself."""

from __future__ import annotations

from gpucluster.launchers.launcher import Launcher

SRUN = Launcher(
    name="srun",
    template="srun.sh.j2",
    variables={
        "RANK": "SLURM_PROCID",
        "LOCAL_RANK": "SLURM_LOCALID",
        "WORLD_SIZE": "SLURM_NTASKS",
        "NODE_RANK": "SLURM_NODEID",
        "GPUCLUSTER_NODE": "SLURMD_NODENAME",
    },
    slurm_starts_ranks=True,
)
