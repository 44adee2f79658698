"""Whether the head node's clock is right. Nodes check their own before each job."""

from __future__ import annotations

from gpucluster.head.remote import Remote

ARGV = ["timeout", "15", "python3", "/opt/gpucluster/bundle/gpucluster_node/health/clock.py"]
OFF_S = 30.0
"""As in the nodes' check (gpucluster_node/health/checks.py)."""


def words(remote: Remote) -> str:
    """Empty if it is right, or if Amazon's time service does not answer."""
    try:
        ahead_s = float(remote.run(ARGV).stdout)
    except ValueError:
        return ""
    if abs(ahead_s) <= OFF_S:
        return ""
    off = f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} Amazon's time service"
    return (
        f"WARNING: the head node's clock is {off}: from 300 s on munge refuses its messages, so no node joins and no "
        "job starts, and AWS refuses its calls; `gpucluster ssh -- timedatectl` shows what should keep it"
    )
