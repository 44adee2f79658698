"""Why a job waits, or how it ended, in plain words with the evidence. Pure: the caller reads Slurm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from gpucluster.following import data_wait
from gpucluster.following.jobs import Ending, describe
from gpucluster.head import slurm
from gpucluster.head.slurm import Job, Node


def waiting(
    job: Job, nodes: Sequence[Node], staging: Mapping[str, Any] | None = None, causes: Sequence[str] = ()
) -> Iterator[str]:
    """`nodes`: of its partition; `staging`: the progress of its data; `causes`: why its nodes have not joined, and
    which other jobs it waits for."""
    yield describe(job)
    yield from causes
    if staging:
        yield _staging(staging)
    if slurm.base_state(job.state) == "PENDING":
        yield f"Slurm says: {job.reason.strip('()')}"
        yield from _nodes(job, nodes)
        if job.start not in ("", "N/A"):
            yield _start(job.start)
        elif "Dependency" not in job.reason and not slurm.is_held(job.reason):
            yield "Slurm does not know yet when it will start"


def _start(start: str) -> str:
    """For a job without a time limit Slurm assumes a year."""
    with suppress(ValueError, TypeError):  # the user's SLURM_TIME_FORMAT may be another one, also with an offset
        if datetime.fromisoformat(start) - datetime.now() > timedelta(days=300):
            return "Slurm cannot say when it will start: a job before it has no time limit"
    return f"expected to start at {start}"


def _staging(moved: Mapping[str, Any]) -> str:
    if moved.get("waits"):
        reason = f": {moved['reason']}" if moved.get("reason") else ", which takes some minutes"
        return f"{moved['path']} is being created for it{reason}"
    done = "loaded from S3" if moved["stage"] == "in" else "exported to S3"
    return f"{moved['done']} of {moved['total']} files of {moved['path']} are {done}"


def _nodes(job: Job, nodes: Sequence[Node]) -> Iterator[str]:
    usable = [node for node in nodes if node.available]
    idle = [node for node in usable if node.state == "idle" and node.mark in ("", "~")]
    counts = f"{len(idle)} free, {len(usable) - len(idle)} busy or starting, {len(nodes) - len(usable)} out of service"
    yield f"it needs {job.nodes} of the {len(nodes)} nodes of {job.partition}: {counts}"
    for node in nodes:
        if not node.available or node.reason:
            yield f"  {node.name} is {node.words}: {node.reason or 'no reason given'}"
    if len(usable) < job.nodes:
        back = "`sudo scontrol update nodename=NAME state=resume` on the head node resumes a node"
        is_tried_again = any(slurm.next_try(node.reason)[1] for node in nodes)
        tried_again = "nodes with a next try resume automatically; " if is_tried_again else ""
        yield f"it cannot start until enough nodes are in service: {tried_again}{back}"


def ended(job_id: str, ending: Ending, log_lines: Sequence[str]) -> Iterator[str]:
    """log_lines: of `logs.last_lines`."""
    yield ending.sentence(job_id)
    if ending.failed and log_lines:
        of_rank = ending.failed_label and log_lines[0].startswith(ending.failed_label)
        yield f"the last lines of {ending.failed_rank}:" if of_rank else "the end of its log:"
        yield from (f"  {line}" for line in log_lines)
    yield from data_wait.words(ending.result, notable=ending.failed)
