"""Jobs whose processes have roles: each role is a Slurm step, and gpucluster_job/roles/steps.py starts them all."""

from __future__ import annotations

from gpucluster.launchers.launcher import CONTAINER, LaunchRequest

SHARING = ("--overcommit", "--cpu-bind=none")
LEASHED, LEADING = "leashed", "leading"
"""A step runs until the job ends, or is what the job ends with."""


def roles(request: LaunchRequest, grace_s: int, *steps: list[str]) -> list[str]:
    """`grace_s`: for the others to end by themselves once the leading step has ended well."""
    return [*request.ours("roles"), str(grace_s), *(word for step in steps for word in step)]


def workers(request: LaunchRequest, kind: str, command: list[str]) -> list[str]:
    """All ranks, on the workers' nodes."""
    tasks = [f"--ntasks={request.world_size}", f"--ntasks-per-node={request.ranks_per_node}"]
    options = [f"--nodes={request.nodes}", *tasks, "--cpus-per-task={CPUS_PER_RANK}", CONTAINER]
    return _step(request, kind, options, "worker", command)


def single(request: LaunchRequest, kind: str, role: str, command: list[str]) -> list[str]:
    """One process on the first node, which shares it with the ranks there."""
    options = ["--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--nodelist={FIRST_NODE}", *SHARING, CONTAINER]
    return _step(request, kind, options, role, command)


def servers(request: LaunchRequest, command: list[str]) -> list[str]:
    """One after the other, on each node in turn: nodes of their own where the job has some, or the workers'."""
    nodes = request.server_nodes or min(request.nodes, request.servers)
    options = [f"--nodes={nodes}", f"--ntasks={request.servers}", "--distribution=cyclic", *SHARING, CONTAINER]
    if request.server_nodes:
        options.append("--het-group=1")
        # a container is made on the workers' nodes before: not on these
        options += [f"--container-image={request.container_image}"] if request.container_image else []
    return _step(request, LEASHED, options, "server", command)


def _step(request: LaunchRequest, kind: str, options: list[str], role: str, command: list[str]) -> list[str]:
    srun = ["srun", "--overlap", "--kill-on-bad-exit=1", *options]
    return [kind, *srun, *request.in_step("role", role, kind), *command, ";"]
