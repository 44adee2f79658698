"""srun: Slurm starts each rank itself."""

from __future__ import annotations

from gpucluster.launchers.launcher import CONTAINER, Launcher, LaunchRequest


def argv(request: LaunchRequest) -> list[str]:
    tasks = [f"--ntasks={request.world_size}", f"--ntasks-per-node={request.ranks_per_node}"]
    options = [f"--nodes={request.nodes}", *tasks, "--cpus-per-task={CPUS_PER_RANK}", "--kill-on-bad-exit=1"]
    return ["srun", *options, CONTAINER, *request.in_step("rank")]


SRUN = Launcher(
    name="srun",
    argv=argv,
    variables={
        "RANK": "SLURM_PROCID",
        "LOCAL_RANK": "SLURM_LOCALID",
        "WORLD_SIZE": "SLURM_NTASKS",
        "NODE_RANK": "SLURM_NODEID",
        "GPUCLUSTER_NODE": "SLURMD_NODENAME",
    },
    slurm_starts_ranks=True,
)
