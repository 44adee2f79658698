"""Repeats the launches of a killed ResumeProgram, so that its jobs keep their nodes.

Once: if the second program is killed too, for lack of memory perhaps, reconcile sets its nodes DOWN.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucluster_node import ec2, slurm, states
from gpucluster_node.power import words

log = logging.getLogger("again")
FILE = Path("/run/gpucluster/resume-again.json")


@dataclass
class Repeats:
    """The killed programs whose launches are still to be repeated."""

    _left: list[Mapping[str, Any]] = field(default_factory=list)

    def look(
        self,
        killed: Sequence[Mapping[str, Any]],
        nodes: Sequence[slurm.Node],
        own: Mapping[str, ec2.Instance],
        instances: Sequence[ec2.Instance],
        launching: Collection[str],
    ) -> None:
        """Waits while an instance has no node's name. A killed program has left it, and it uses the capacity, of a
        Capacity Block perhaps, that the repeated launch needs; but no such instance is terminated while any program
        launches. It ends (states.ORPHAN_GRACE) before reconcile sets the nodes DOWN (states.LAUNCH_GRACE)."""
        self._left += killed
        if launching or all(each.node for each in instances):
            left, self._left = self._left, []
            start(left, nodes, own)


def start(killed: Sequence[Mapping[str, Any]], nodes: Sequence[slurm.Node], newest: Mapping[str, ec2.Instance]) -> None:
    """killed: what the programs recorded. Leaves out nodes that Slurm no longer powers up, or that have an instance.
    One program launches all others: a killed one may have had many records, and memory may be short."""
    waiting = {each.name for each in nodes if words.of_slurm(each) == states.BOOTING and each.name not in newest}
    repeated = [each for each in killed if not each["again"]]
    again = [name for each in repeated for name in each["nodes"] if name in waiting]
    if again:
        log.warning("%s: their ResumeProgram was killed; starts again", ",".join(again))
        launch(again, [job for each in repeated for job in each["jobs"]])


def launch(nodes: Sequence[str], jobs: Sequence[dict[str, Any]]) -> None:
    """Like slurmctld, but does not wait for the program."""
    file = FILE.with_name(f"{FILE.stem}-{nodes[0]}.json")
    file.write_text(json.dumps({"jobs": list(jobs)}))
    argv = [sys.executable, "-m", "gpucluster_node.power.resume", ",".join(nodes), "again"]
    subprocess.Popen(argv, env={**os.environ, "SLURM_RESUME_FILE": str(file)})
