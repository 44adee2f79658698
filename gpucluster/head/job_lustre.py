"""The file systems that live with jobs: the stack knows nothing of them, the head does. What it says of them, and that
it deletes them when the cluster is deleted."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from gpucluster.config import ClusterConfig
from gpucluster.errors import UsageError
from gpucluster.head.remote import Remote

PROGRAM = ("sudo", "-n", "/opt/gpucluster/bin/node-program", "lustre.for_jobs", "end")
TIMEOUT_S = 3600.0
"""FSx takes minutes to delete one, and first to make one that has just been asked for."""


STATES = "/home/gpucluster/lustre"
_MAKING = ("creating", "linking")


def states(remote: Remote, config: ClusterConfig) -> dict[str, str]:
    """Mount -> what the head does with it, and what keeps it from that; "" where it is there and in use or will go."""
    return {each.mount: _words(_state(remote, each.mount)) for each in config.lustre_with_jobs}


def _state(remote: Remote, mount: str) -> dict[str, Any]:
    """Empty where no job has ever used it."""
    done = remote.run(["cat", f"{STATES}/{mount.strip('/').replace('/', '-')}/state.json"])
    with suppress(ValueError):
        found = json.loads(done.stdout)
        return found if isinstance(found, dict) else {}
    return {}


def _words(state: dict[str, Any]) -> str:
    phase, reason = state.get("phase", "absent"), state.get("reason")
    if phase == "ready":
        return str(reason or "")
    what = "is being created" if phase in _MAKING else "is being deleted" if phase == "deleting" else "no job uses it"
    return f"{what}: {reason}" if reason else what


def end(remote: Remote, *, discard: bool) -> list[str]:
    """A line for each that is deleted now. The head makes no more of them. Raises RemoteError, with its reason."""
    done = remote.run([*PROGRAM, *(["--discard"] if discard else [])], timeout_s=TIMEOUT_S)
    return done.check("not all file systems of jobs were deleted").stdout.splitlines()


def names(config: ClusterConfig) -> set[str]:
    """As FSx shows them in the tag Name."""
    return {each.tagged_name(config.name) for each in config.lustre_with_jobs}


def refusal(there: Collection[str], reason: Exception) -> UsageError:
    """`there`: names of those that would be left behind, with interfaces that keep the network from being deleted."""
    return UsageError(
        f"FSx still has {', '.join(sorted(there))}, and nothing would delete it: {reason}; the cluster is kept",
        "run `gpucluster down` again once the head node answers, or delete it by this name in the FSx console",
    )
