"""The checks of one node, run there on request: gpucluster_node/health/look.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucluster.head.remote import Remote

LONGEST_S = 1500.0
"""The checks take up to two minutes, DCGM's diagnostics up to 14, their end up to three. Slurm may answer slowly."""
_LOOK = ("sudo", "/opt/gpucluster/bin/node-program", "health.look", "--diagnose")
_DCGM = "DCGM"
"""The name of its check (gpucluster_node/health/checks.py)."""


@dataclass(frozen=True)
class Checkup:
    ok: bool
    checks: Mapping[str, Sequence[str]]
    """Check -> what is wrong."""
    skipped: str
    """Why DCGM's diagnostics could not run; empty if they did."""
    drained: str = ""
    """The reason with which the node was drained because DCGM's diagnostics failed; empty if it was not."""


def of(remote: Remote, node: str) -> Checkup:
    """Raises RemoteError if the node is not up."""
    reach = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", node)
    done = remote.run([*reach, *_LOOK], timeout_s=LONGEST_S).check(f"cannot check {node}")
    found = json.loads(done.stdout.splitlines()[-1])
    # A node that booted with an older version drains nothing.
    return Checkup(found["ok"], found["checks"], found["skipped"], found.get("drained", ""))


def lines(node: str, found: Checkup) -> list[str]:
    width = max(map(len, found.checks), default=0)
    said = [
        f"{'broken ' if wrong else 'ok     '}  {name.ljust(width)}  {'; '.join(wrong)}".rstrip()
        for name, wrong in found.checks.items()
    ]
    if found.skipped:
        said.append(f"DCGM's diagnostics could not run: {found.skipped}")
    return [*said, _summary(node, found)]


def _summary(node: str, found: Checkup) -> str:
    """Whether the node is healthy, and what happens to a broken one."""
    if found.ok and found.skipped:
        return f"{node} passes the checks of its jobs, and nothing more is known"
    if found.ok:
        return f"{node} is healthy"
    if found.drained:
        return f"{node} is drained: its instance is terminated, and the next job that needs the node gets a new one"
    command = f"sudo scontrol update nodename={node} state=power_down_asap reason=health"
    replace = f"`gpucluster ssh -- {command}` replaces it"
    if any(wrong for name, wrong in found.checks.items() if name != _DCGM):
        return f"if this lasts, {node} fails its next job's check and is replaced then; {replace} now"
    return f"no job's check runs DCGM's diagnostics, and {node} keeps its state in Slurm: {replace}"
