"""tensorflow-ps: a chief for ParameterServerStrategy on the first node, servers, workers; TF_CONFIG says who is who."""

from __future__ import annotations

from gpucluster.launchers.launcher import Launcher

TENSORFLOW_PS = Launcher(
    name="tensorflow-ps",
    template="tensorflow-ps.sh.j2",
    variables={"GPUCLUSTER_NODE": "SLURMD_NODENAME"},
    slurm_starts_ranks=True,
    frameworks=("tensorflow",),
    servers=True,
    roles=True,
    one_rank_per_node=True,
    programs=("roles.sh", "role.sh", "tensorflow.sh", "hold-ports.sh"),
)
