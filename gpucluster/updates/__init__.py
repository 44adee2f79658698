"""The effects of a changed cluster file on the running cluster. Pure: `gpucluster.cli.changes` calls AWS and acts.

`compare` finds the changes and their effects, by the table in `policies`. `settle` takes into account which nodes
run, and which of the file systems that `asks_for` names exist.
"""

from __future__ import annotations

from gpucluster.config.outcome import Effect
from gpucluster.updates.plan import Change, LiveNode, asks_for, compare, drains, of_effect, settle, summary
from gpucluster.updates.policies import POLICIES
from gpucluster.updates.record import (
    Deployed,
    LookedUp,
    UnknownRecord,
    head_replacements,
    metadata,
    read,
    replacements_key,
)

__all__ = [
    "POLICIES",
    "Change",
    "Deployed",
    "Effect",
    "LiveNode",
    "LookedUp",
    "UnknownRecord",
    "asks_for",
    "compare",
    "drains",
    "head_replacements",
    "metadata",
    "of_effect",
    "read",
    "replacements_key",
    "settle",
    "summary",
]
