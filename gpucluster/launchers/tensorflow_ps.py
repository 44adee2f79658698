"""tensorflow-ps: a chief for ParameterServerStrategy on the first node, servers, workers; TF_CONFIG lists them."""

from __future__ import annotations

from gpucluster.launchers.launcher import COMMAND, Launcher, LaunchRequest
from gpucluster.launchers.steps import LEADING, LEASHED, roles, servers, single, workers


def argv(request: LaunchRequest) -> list[str]:
    """Workers and servers run the same program as the chief, and serve its requests until they are terminated."""
    steps = (
        servers(request, [COMMAND]),
        workers(request, LEASHED, [COMMAND]),
        single(request, LEADING, "chief", [COMMAND]),
    )
    return roles(request, 0, *steps)


TENSORFLOW_PS = Launcher(
    name="tensorflow-ps",
    argv=argv,
    variables={"GPUCLUSTER_NODE": "SLURMD_NODENAME"},
    slurm_starts_ranks=True,
    frameworks=("tensorflow",),
    servers=True,
    roles=True,
    one_rank_per_node=True,
)
