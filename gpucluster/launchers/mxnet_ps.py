"""mxnet-ps: a scheduler on the first node, servers that keep the parameters, and workers that train."""

from __future__ import annotations

from gpucluster.launchers.launcher import COMMAND, Launcher, LaunchRequest
from gpucluster.launchers.steps import LEADING, LEASHED, roles, servers, single, workers

GRACE_S = 10


def argv(request: LaunchRequest) -> list[str]:
    """A process with the role of scheduler or server serves from the import until the job ends. Servers are sent the
    optimizer, and import the module that it is from: they look for it where the program does."""
    meeting = ["DMLC_PS_ROOT_URI={MASTER_ADDR}", "DMLC_PS_ROOT_PORT={MASTER_PORT}"]
    size = [f"DMLC_NUM_SERVER={request.servers}", f"DMLC_NUM_WORKER={request.world_size}"]
    serve = ["env", f"PYTHONPATH={request.module_folder}:{{PYTHONPATH}}", "python", "-c", "import mxnet"]
    steps = (
        single(request, LEASHED, "scheduler", serve),
        servers(request, serve),
        workers(request, LEADING, [COMMAND]),
    )
    return ["env", *meeting, *size, *roles(request, GRACE_S, *steps)]


MXNET_PS = Launcher(
    name="mxnet-ps",
    argv=argv,
    variables={"GPUCLUSTER_NODE": "SLURMD_NODENAME"},
    slurm_starts_ranks=True,
    frameworks=("mxnet",),
    servers=True,
    roles=True,
    one_rank_per_node=True,
)
