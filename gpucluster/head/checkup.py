"""The checks of one node, run there on request: gpucluster_node/health/look.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucluster.head.remote import Remote

LONGEST_S = 1000.0
"""DCGM's diagnostics take minutes."""
_LOOK = ("sudo", "/opt/gpucluster/bin/node-program", "health.look", "--diagnose")


@dataclass(frozen=True)
class Checkup:
    ok: bool
    checks: Mapping[str, Sequence[str]]
    """Check -> what is wrong."""
    skipped: str
    """Why DCGM's diagnostics did not run; empty if they did."""


def of(remote: Remote, node: str) -> Checkup:
    """Raises RemoteError if the node is not up."""
    reach = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", node)
    done = remote.run([*reach, *_LOOK], timeout_s=LONGEST_S).check(f"cannot check {node}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Checkup(found["ok"], found["checks"], found["skipped"])


def lines(node: str, found: Checkup) -> list[str]:
    width = max(map(len, found.checks), default=0)
    said = [
        f"{'broken ' if wrong else 'ok     '}  {name.ljust(width)}  {'; '.join(wrong)}".rstrip()
        for name, wrong in found.checks.items()
    ]
    if found.skipped:
        said.append(f"DCGM's diagnostics did not run: {found.skipped}")
    if found.ok:
        return [*said, f"{node} is healthy"]
    replace = f"sudo scontrol update nodename={node} state=power_down_asap reason=health"
    return [*said, f"{node} fails its next job's check and is replaced then; `gpucluster ssh -- {replace}` does so now"]
