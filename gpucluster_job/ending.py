"""Why the job ended: the rank that failed and its reason, or else the launcher's last message, or Slurm's reason for
stopping the job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from gpucluster_job.log import say
from gpucluster_job.settings import Settings

_STEPD = re.compile(
    r"(?:\[launcher\] )?slurmstepd(?:-[^ :]+)?: error: \*\*\* .* CANCELLED AT [^ ]+ DUE TO ([A-Z ]*[A-Z])"
)
"""Matches a line of slurmstepd. A program cannot print one, because its lines begin with the rank's label."""
STOPPED_BY = {
    "NODE FAILURE": "lost a node",
    "PREEMPTION": "preempted: a job with a higher priority needs its nodes",
    "JOB REQUEUE": "requeued",
    "TIME LIMIT": "stopped at its time limit",
}
TIME = "%Y-%m-%dT%H:%M:%SZ"
ANNOUNCED_S = 45
"""Jobs are requeued this long before the announced end of their node, or a little later."""
EARLY_S = 5
"""Slurm's clock may be ahead of this node's by this much."""


@dataclass
class Ending:
    code: int = 1
    label: str = ""
    """The failed rank's label."""
    node: str = ""
    reason: str = ""


def now() -> str:
    return datetime.now(timezone.utc).strftime(TIME)


def stop_reason(settings: Settings, log_start: int, lost_node: str | None, *, survives: bool = False) -> str:
    """slurmstepd writes to the log why Slurm ends a job. srun knows which node was lost. EC2 announces some
    ends. survives: the job is elastic, so Slurm does not end it because of a lost node."""
    announced = "" if survives else _announced(settings)
    if announced and (announced.startswith(f"{lost_node} ") or _is_near(announced)):
        return announced
    if lost_node and not survives:
        return f"lost the node {lost_node}"
    said = [match[1] for match in map(_STEPD.match, _this_run(settings.log, log_start)) if match]
    if said and said[-1] in STOPPED_BY:
        return STOPPED_BY[said[-1]]
    ends_at = os.environ.get("SLURM_JOB_END_TIME", "")
    if ends_at.isdigit() and time.time() >= int(ends_at) - EARLY_S:
        return STOPPED_BY["TIME LIMIT"]
    return "cancelled"


def _this_run(log: Path, start: int) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(start)
            return [line.decode(errors="replace") for line in file if b"slurmstepd" in line]
    except OSError:
        return []


def runs_again(settings: Settings) -> bool:
    """Whether Slurm has requeued the job, because a node was lost or a user asked for it. Slurm counts the next run at
    once, while the job's state is still that of the current run."""
    match = re.search(rf"^JobId={settings.job_id} .* Restarts=(\d+) ", _shown(settings), re.MULTILINE)
    return bool(match) and int(match[1]) > settings.runs_before  # type: ignore[index]


def _announced(settings: Settings) -> str:
    """What EC2 has announced of a node of this run: bootstrap/gpucluster_node/ends.py writes it."""
    said = rf"^JobId={settings.job_id} .* AdminComment=run {settings.runs_before}: (.*?at [-0-9T:]+Z) "
    match = re.search(said, _shown(settings), re.MULTILINE)
    return match[1] if match else ""


def _is_near(announced: str) -> bool:
    """Whether the job was stopped because of the notice. A user may cancel the job before."""
    at = datetime.strptime(announced.split()[-1], TIME).replace(tzinfo=timezone.utc)
    return time.time() >= at.timestamp() - ANNOUNCED_S


def _shown(settings: Settings) -> str:
    """The job as Slurm shows it; empty if Slurm does not answer."""
    asked = ["scontrol", "--oneliner", "show", "job", settings.job_id]
    try:
        return subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def write_result(
    settings: Settings, ending: Ending, nodes: list[str], started_at: str, more: dict[str, object]
) -> dict[str, object]:
    """Writes the file in one step, so that nobody reads half of it."""
    result: dict[str, object] = {
        "job_id": settings.shown_id,
        "exit_code": ending.code,
        "launcher": settings.launcher,
        "nodes": settings.nodes,
        "world_size": settings.world_size,
        "node_list": nodes,
        "failed_rank": int(ending.label) if ending.label.isdigit() else ending.label or None,
        "failed_node": ending.node or None,
        "reason": ending.reason or None,
        **more,
        "started_at": started_at,
        "ended_at": now(),
    }
    path = settings.result
    partial = path.with_name("result.json.new")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps(result, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())  # NFS and ext4 may say only now that the file system is full
        partial.replace(path)
    except OSError as error:
        say(f"error: {path} could not be written: {error.strerror}")
    return result
