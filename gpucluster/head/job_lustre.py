"""File systems with `lifetime: jobs`, which the head node creates and the stack does not contain: their state, and
their deletion together with the cluster."""

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
"""FSx takes minutes to delete a file system, and first to finish one that is being created."""


STATES = "/home/gpucluster/lustre"
_MAKING = ("creating", "linking")


def states(remote: Remote, config: ClusterConfig) -> dict[str, str]:
    """Mount -> what the head node does with the file system, and what prevents that; "" if it needs no words."""
    return {each.mount: _words(_state(remote, each.mount)) for each in config.lustre_with_jobs}


def _state(remote: Remote, mount: str) -> dict[str, Any]:
    """Empty if no job has ever used it."""
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
    """A line for each deleted file system. The head node creates no more. Raises RemoteError with its reason."""
    done = remote.run([*PROGRAM, *(["--discard"] if discard else [])], timeout_s=TIMEOUT_S)
    return done.check("some file systems of jobs were not deleted").stdout.splitlines()


def names(config: ClusterConfig) -> set[str]:
    """Their names, which are FSx's tag Name."""
    return {each.tagged_name(config.name) for each in config.lustre_with_jobs}


def refusal(there: Collection[str], reason: Exception) -> UsageError:
    """`there`: names of those that would remain; their network interfaces would prevent the deletion of the network."""
    return UsageError(
        f"FSx still has {', '.join(sorted(there))}, which only this cluster deletes: {reason}; the cluster is kept",
        "run `gpucluster down` again once the head node answers, or delete it by this name in the FSx console",
    )
