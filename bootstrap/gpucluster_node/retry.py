"""When a failed node may be tried again. The time is in the node's reason in Slurm, so users see it and no other state
is needed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from gpucluster_node.slurm import Node

LAUNCH_REFUSED_S = 120
BOOT_FAILED_S = 300
"""Long enough to log in and look, because the instance stays until then."""
INSTANCE_GONE_S = 0
UNWANTED = "no job waits for it any longer, and EC2 has launched no instance"
SLURM_REASONS = {"ResumeTimeout reached": 120, "Not responding": 60}
"""Slurm's own reasons for DOWN, and after how many seconds a node with that reason is tried again. A node that does not
respond has been silent for SlurmdTimeout before; a job that needs it waits for a new instance."""
_ENDED_FROM_OUTSIDE = (
    "Client.InstanceInitiatedShutdown",
    "Client.UserInitiatedShutdown",
    "Server.InternalError",
    "Server.ScheduledStop",
    "Server.SpotInstanceTermination",
)
_NEXT_TRY = re.compile(r"; next try (?:at once|in (\d+) s)$")
_PROGRAMS = re.compile(
    r"health: |spot: |doctor: |Capacity Block |EC2 plans |EC2's status checks fail: |launched from an older template "
    r"|step=\w+ line=|step=scripts/|/\S+ is being (built|filled)"
)
"""Reasons without a time with which programs drain nodes begin with these words. `gpucluster up --drain` is not among
them: its nodes stay out of service during a change."""


def reason(why: str, after_s: int) -> str:
    """Quotes and newlines would end scontrol's argument in its listing."""
    plain = " ".join(why.replace('"', "'").split())
    return f"{plain}; next try {f'in {after_s} s' if after_s else 'at once'}"


def gone(ended_by: str = "") -> str:
    """For a node without its instance; ended_by: EC2's message. An instance that a user, the spot market or a broken
    host terminated is launched again at once. One that could not start, for example because its key may not be used,
    would fail again now."""
    after_s = INSTANCE_GONE_S if not ended_by or ended_by.startswith(_ENDED_FROM_OUTSIDE) else LAUNCH_REFUSED_S
    return reason(f"the EC2 instance of this node is gone{': ' + ended_by if ended_by else ''}", after_s)


def is_due(node: Node, now: datetime) -> bool:
    """Also False for a node that a user set DOWN, or drained before it was silent: it is left to Slurm and the user."""
    after_s = _after_s(node)
    return after_s is not None and node.reason_time is not None and now - node.reason_time >= timedelta(seconds=after_s)


def is_ours(node: Node) -> bool:
    """Whether a program, and not a user, gave the node its reason."""
    return _after_s(node) is not None


def was_refused(node: Node) -> bool:
    """Whether EC2 refused to launch the node's instance, or ended it before it started. The launch may have been
    cancelled after that."""
    return _next_try(node.reason) == LAUNCH_REFUSED_S or node.reason.startswith(UNWANTED)


def _after_s(node: Node) -> int | None:
    """Slurm keeps the drain of a node that it sets DOWN."""
    before, of_slurm = _split(node.reason)
    if of_slurm is None:
        return _next_try(before)
    is_users = bool(before) and node.has("DRAIN", "FAIL") and not _is_programs(before)
    return None if is_users else SLURM_REASONS[of_slurm]


def _split(text: str) -> tuple[str, str | None]:
    """The reason that somebody gave the node, and Slurm's last one. Slurm appends its own reasons to the one that the
    node already has (node_mgr.c: set_node_reason)."""
    before, _, last = text.rpartition(" : ")
    return (_split(before)[0], last) if last in SLURM_REASONS else (text, None)


def _is_programs(text: str) -> bool:
    return _next_try(text) is not None or _PROGRAMS.match(text) is not None


def _next_try(text: str) -> int | None:
    found = _NEXT_TRY.search(text)
    return int(found[1] or 0) if found else None
