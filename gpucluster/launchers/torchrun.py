"""torchrun: one agent per node. The agents rendezvous at the first node and start their node's ranks.

Static: torchrun's other rendezvous, c10d, unpickles what any process wrote to its store, which listens on all addresses
without a secret (_RendezvousState in torch/distributed/elastic/rendezvous/dynamic_rendezvous.py).
"""

from __future__ import annotations

from gpucluster.launchers.launcher import CONTAINER, Launcher, LaunchRequest


def argv(request: LaunchRequest) -> list[str]:
    """gpucluster_job/torchrun.py adds the options that differ between nodes, and replaces itself with torchrun."""
    nodes = [f"--nodes={request.nodes}", f"--ntasks={request.nodes}", "--ntasks-per-node=1"]
    size = [f"--nnodes={request.nodes}", f"--nproc-per-node={request.ranks_per_node}", "--max-restarts=0"]
    meeting = ["--rdzv-backend=static", "--rdzv-id={SLURM_JOB_ID}", "--rdzv-endpoint={MASTER_ADDR}:{MASTER_PORT}"]
    agent = [*request.in_step("torchrun"), *size, *meeting, "--no-python"]
    return ["srun", *nodes, "--kill-on-bad-exit=1", "--cpu-bind=none", CONTAINER, *agent, *request.in_step("rank")]


TORCHRUN = Launcher(
    name="torchrun",
    argv=argv,
    variables={"NODE_RANK": "GROUP_RANK", "GPUCLUSTER_NODE": "SLURMD_NODENAME"},
    frameworks=("torch", "horovod"),
)
