"""tensorflow-mwms: workers for MultiWorkerMirroredStrategy, the first of them the chief; TF_CONFIG says who is who."""

from __future__ import annotations

from gpucluster.launchers.launcher import Launcher

TENSORFLOW_MWMS = Launcher(
    name="tensorflow-mwms",
    template="tensorflow-mwms.sh.j2",
    variables={"GPUCLUSTER_NODE": "SLURMD_NODENAME"},
    slurm_starts_ranks=True,
    frameworks=("tensorflow",),
    roles=True,
    one_rank_per_node=True,
    programs=("roles.sh", "role.sh", "tensorflow.sh", "hold-ports.sh"),
)
