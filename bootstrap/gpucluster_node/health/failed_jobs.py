"""Jobs of a node whose script has just failed, and how many GPUs they had."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from gpucluster_node import record_ends, slurm

_COLUMNS = f"Reason:20|,EndTime:20|,tres-alloc:400|,tres-per-node:200|,{slurm.RUNNING_COLUMNS}"
_EXIT_CODE = "NonZeroExitCode"
"""The reason of a job whose script failed, while it completes and afterwards (job_mgr.c: job_complete). A cancelled job
has another; its state is COMPLETING too while it completes."""
_CLOCKS_DIFFER = timedelta(seconds=20)
"""At most, those of this node and the head node. A healthy clock is right to milliseconds."""


def parse(text: str, since: datetime, until: datetime) -> list[slurm.Running]:
    """From `squeue --Format` of _COLUMNS: jobs whose script has failed meanwhile. since, until: with a time zone.

    A job that was requeued while it completed keeps its reason and the state COMPLETING, and ends in the future:
    at least a minute after now, which is the shortest time limit (job_mgr.c: _job_requeue_op, pack_job)."""
    least, most = (f"{each.astimezone():%Y-%m-%dT%H:%M:%S}" for each in (since, until + _CLOCKS_DIFFER))
    rows = (record.split("|", 4) for record in record_ends.split(text) if record.count("|") > 3)
    return [
        replace(job, gpus=_gpus_per_node(allocated, asked))
        for why, end, allocated, asked, rest in rows
        if why.strip() == _EXIT_CODE and end[:1].isdigit() and least <= end.strip() <= most
        for job in slurm.parse_running(f"{rest}{record_ends.END}\n", {"COMPLETING", "FAILED"})
    ]


def _gpus_per_node(allocated: str, asked: str) -> int:
    """allocated: cpu=192,node=2,gres/gpu=16, but without accounting Slurm does not count GPUs. asked: gres/gpu:8, or
    gres:gpu:a100:8."""
    gpus, nodes = re.search(r"\bgres/gpu=(\d+)", allocated), re.search(r"\bnode=(\d+)", allocated)
    if gpus and nodes:
        return int(gpus[1]) // int(nodes[1])
    each = re.search(r"\bgpu(?::[^:,=]+)?[:=](\d+)", asked)
    return int(each[1]) if each else 0


def on(node: str, since: datetime) -> list[slurm.Running]:
    """Slurm forgets a job MinJobAge after its end."""
    asked = ["squeue", "--noheader", "--states=all", f"--nodelist={node}", f"--Format={_COLUMNS}"]
    return parse(slurm.call(asked), since, datetime.now(timezone.utc))
