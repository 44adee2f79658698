"""mxnet-ps: a scheduler on the first node, servers that keep the parameters, and workers that train."""

from __future__ import annotations

from gpucluster.launchers.launcher import COMMAND, Launcher, LaunchRequest
from gpucluster.launchers.steps import LEADING, LEASHED, roles, servers, single, workers

GRACE_S = 10


def argv(request: LaunchRequest) -> list[str]:
    """Schedulers and servers serve from the import until the job ends. Servers receive the optimizer and import its
    module, so they need the program's own import path."""
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
