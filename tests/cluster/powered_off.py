"""A node that is powered off: for tests of its next launch, whatever earlier tests left running."""

from __future__ import annotations

from bed import Bed, wait_for


def powered_off_node(cluster: Bed) -> str:
    """Of the partition `train`. No job is left, so only the caller's next job launches a node: a fault that the caller
    adds is for that node. If all nodes are up, one is ended."""
    if not cluster.python:  # otherwise the next job waits for another node, which builds its environment
        built = cluster.gpucluster("env", "build", "torch", timeout_s=300)
        assert built.returncode == 0, built.stderr
    wait_for("the end of other jobs", lambda: not cluster.ssh("squeue", "-h", "-o", "%i").strip(), 120)
    wait_for("the end of other launches", lambda: not _is_launching(cluster), 240)
    if "idle~" not in _states(cluster).values():
        node = wait_for("an idle node", lambda: _first(cluster, "idle"), 60)
        cluster.ssh("sudo", "scontrol", "update", f"nodename={node}", "state=power_down_force")
    found: str = wait_for("a node that is off", lambda: _first(cluster, "idle~"), 120)
    return found


def _first(cluster: Bed, state: str) -> str:
    return next((node for node, its in _states(cluster).items() if its == state), "")


def _is_launching(cluster: Bed) -> bool:
    """`down#` is a node whose boot has failed."""
    return any(state.endswith("#") and not state.startswith("down") for state in _states(cluster).values())


def _states(cluster: Bed) -> dict[str, str]:
    """`idle~` is powered off, `idle#` booting."""
    lines = cluster.ssh("sinfo", "-h", "-N", "-p", "train", "-o", "%n %t").splitlines()
    return dict((line.split()[0], line.split()[1]) for line in lines)
