"""Jobs whose processes have different roles: each role is a Slurm step. gpucluster_job/roles/steps.py starts them."""

from __future__ import annotations

from gpucluster.launchers.launcher import CONTAINER, LaunchRequest

SHARING = ("--overcommit", "--cpu-bind=none")
LEASHED, LEADING = "leashed", "leading"
"""Whether a step runs until the job ends, or ends the job when it ends."""


def roles(request: LaunchRequest, grace_s: int, *steps: list[str]) -> list[str]:
    """`grace_s`: the time in which the other steps may end after the leading step completed."""
    return [*request.ours("roles"), str(grace_s), *(word for step in steps for word in step)]


def workers(request: LaunchRequest, kind: str, command: list[str]) -> list[str]:
    """The step of all ranks, on the workers' nodes."""
    tasks = [f"--ntasks={request.world_size}", f"--ntasks-per-node={request.ranks_per_node}"]
    options = [f"--nodes={request.nodes}", *tasks, "--cpus-per-task={CPUS_PER_RANK}", CONTAINER]
    return _step(request, kind, options, "worker", command)


def single(request: LaunchRequest, kind: str, role: str, command: list[str]) -> list[str]:
    """A step of one process on the first node, beside the ranks there."""
    options = ["--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--nodelist={FIRST_NODE}", *SHARING, CONTAINER]
    return _step(request, kind, options, role, command)


def servers(request: LaunchRequest, command: list[str]) -> list[str]:
    """The step of the servers, round-robin over their nodes: separate nodes if the job has them, else the workers'."""
    nodes = request.server_nodes or min(request.nodes, request.servers)
    options = [f"--nodes={nodes}", f"--ntasks={request.servers}", "--distribution=cyclic", *SHARING, CONTAINER]
    if request.server_nodes:
        options.append("--het-group=1")
        # the container was created before, but only on the workers' nodes
        options += [f"--container-image={request.container_image}"] if request.container_image else []
    return _step(request, LEASHED, options, "server", command)


def _step(request: LaunchRequest, kind: str, options: list[str], role: str, command: list[str]) -> list[str]:
    srun = ["srun", "--overlap", "--kill-on-bad-exit=1", *options]
    return [kind, *srun, *request.in_step("role", role, kind), *command, ";"]
