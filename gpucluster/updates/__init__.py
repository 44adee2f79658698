"""What a changed cluster file does to the cluster that runs. Pure: `gpucluster.cli.changes` asks and acts.

`compare` finds the changes and what each does, by the table in `policies`; `settle` looks at which nodes run, and which
file systems are there of those that `asks_for` names.
"""

from __future__ import annotations

from gpucluster.config.outcome import Effect
from gpucluster.updates.plan import Change, LiveNode, asks_for, compare, drains, of_effect, settle, summary
from gpucluster.updates.policies import POLICIES
from gpucluster.updates.record import Deployed, LookedUp, UnknownRecord, metadata, read

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
    "metadata",
    "of_effect",
    "read",
    "settle",
    "summary",
]
