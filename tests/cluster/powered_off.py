"""A node that is powered off: for tests of its next launch, whatever earlier tests left running."""

from __future__ import annotations

from bed import Bed, wait_for


def powered_off_node(cluster: Bed, partition: str = "train") -> str:
    """No job is left, so only the caller's next job launches a node: a fault that the caller
    adds is for that node. If all nodes are up, one is ended."""
    if not cluster.python:  # otherwise the next job waits for another node, which builds its environment
        built = cluster.gpucluster("env", "build", "torch", timeout_s=300)
        assert built.returncode == 0, built.stderr
    wait_for("the end of other jobs", lambda: not cluster.ssh("squeue", "-h", "-p", partition, "-o", "%i").strip(), 120)
    wait_for("the end of other launches", lambda: not _is_launching(cluster, partition), 240)
    if "idle~" not in _states(cluster, partition).values():
        node = wait_for("an idle node", lambda: _first(cluster, partition, "idle"), 60)
        cluster.ssh("sudo", "scontrol", "update", f"nodename={node}", "state=power_down_force")
    found: str = wait_for("a node that is off", lambda: _first(cluster, partition, "idle~"), 120)
    return found


def _first(cluster: Bed, partition: str, state: str) -> str:
    return next((node for node, its in _states(cluster, partition).items() if its == state), "")


def _is_launching(cluster: Bed, partition: str) -> bool:
    """`down#` is a node whose boot has failed."""
    return any(state.endswith("#") and not state.startswith("down") for state in _states(cluster, partition).values())


def _states(cluster: Bed, partition: str) -> dict[str, str]:
    """`idle~` is powered off, `idle#` booting."""
    lines = cluster.ssh("sinfo", "-h", "-N", "-p", partition, "-o", "%n %t").splitlines()
    return dict((line.split()[0], line.split()[1]) for line in lines)
