"""mxnet-ps: a scheduler on the first node, servers that keep the parameters, and workers that train."""

from __future__ import annotations

from gpucluster.launchers.launcher import Launcher

MXNET_PS = Launcher(
    name="mxnet-ps",
    template="mxnet-ps.sh.j2",
    variables={"GPUCLUSTER_NODE": "SLURMD_NODENAME"},
    slurm_starts_ranks=True,
    frameworks=("mxnet",),
    servers=True,
    roles=True,
    one_rank_per_node=True,
    programs=("roles.sh", "role.sh"),
)
