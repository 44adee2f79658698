"""Repeats the launches of a killed ResumeProgram, so that its jobs keep their nodes.

Once: if the second program is killed too, for lack of memory perhaps, reconcile sets its nodes DOWN.
"""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpucluster_node import ec2, slurm, states
from gpucluster_node.power import in_flight, words

log = logging.getLogger("again")
FOLDER = Path("/run/gpucluster")
LOG = "/var/log/gpucluster/power.log"


def look(
    killed: Mapping[Path, Mapping[str, Any]],
    nodes: Sequence[slurm.Node],
    own: Mapping[str, ec2.Instance],
    instances: Sequence[ec2.Instance],
    launching: Collection[str],
) -> None:
    """killed: of `in_flight`. An instance without a node's name may be of a killed program. If that program has
    recorded its call, the same call gives the instance its name. Otherwise this waits: the instance uses the capacity,
    of a Capacity Block perhaps, that the repeated launch needs; but no such instance is terminated while any program
    launches. It ends (states.ORPHAN_GRACE) before reconcile sets the nodes DOWN (states.LAUNCH_GRACE)."""
    is_known = any(each.get("asked") for each in killed.values())
    if not killed or not (launching or is_known or all(each.node for each in instances)):
        return
    try:
        start(list(killed.values()), nodes, own)
        in_flight.forget(killed)
    except (OSError, subprocess.SubprocessError) as error:
        log.error("the launches of killed programs are not repeated yet: %s", error)


def start(killed: Sequence[Mapping[str, Any]], nodes: Sequence[slurm.Node], newest: Mapping[str, ec2.Instance]) -> None:
    """killed: what the programs recorded. Leaves out nodes that Slurm no longer powers up, or that have an instance.
    One program launches all others: a killed one may have had many records, and memory may be short."""
    waiting = {each.name for each in nodes if words.of_slurm(each) == states.BOOTING and each.name not in newest}
    repeated = [each for each in killed if not each["again"]]
    again = [name for each in repeated for name in each["nodes"] if name in waiting]
    if again:
        log.warning("%s: their ResumeProgram was killed; starts again", ",".join(again))
        jobs = [job for each in repeated for job in each["jobs"]]
        launch({"nodes": again, "jobs": jobs, "asked": [call for each in repeated for call in each.get("asked", ())]})


def launch(wanted: Mapping[str, Any]) -> None:
    """Like slurmctld, but does not wait for the program. The program has a unit of its own: a restart of reconcile's
    unit, or of slurmctld's, would kill it."""
    name = f"gpucluster-resume-{time.time_ns()}"
    file = FOLDER / f"{name}.json"
    file.write_text(json.dumps(wanted))
    logs = (f"--property=Standard{stream}=append:{LOG}" for stream in ("Output", "Error"))
    program = ("/opt/gpucluster/bin/node-program", "power.resume", str(file))
    command = ["systemd-run", "--collect", "--quiet", f"--unit={name}", *logs, *program]
    try:
        subprocess.run(command, check=True, timeout=30)
    except (OSError, subprocess.CalledProcessError):  # after a timeout, systemd may still start the unit
        file.unlink()
        raise
