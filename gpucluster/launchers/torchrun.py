"""torchrun: one agent per node, which meet at the first node (c10d) and start the node's ranks."""

from __future__ import annotations

from gpucluster.launchers.launcher import Launcher

TORCHRUN = Launcher(
    name="torchrun",
    template="torchrun.sh.j2",
    variables={"NODE_RANK": "GROUP_RANK", "GPUCLUSTER_NODE": "SLURMD_NODENAME"},
    frameworks=("torch", "horovod"),
    programs=("torchrun-node.sh",),
)
