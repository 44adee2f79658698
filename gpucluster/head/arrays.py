"""Job arrays as Slurm lists them: combines the elements into one job, and counts their states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpucluster.head.slurm import Job

KINDS = ("running", "pending", "completed", "failed", "cancelled", "without result")
_RANK = ("running", "pending", "failed", "cancelled", "completed")
"""The first of these kinds that an element has is the array's."""


JOB_ID = re.compile(r"\d+([_+]\d+)?", re.ASCII)
"""12; 12_3, an element of an array; 12+1, a part of a heterogeneous job."""


def array_of(job_id: str) -> tuple[str, int | None]:
    """29, 3 of 29_3; 29, None of 29."""
    number, _, index = job_id.partition("_")
    return number, int(index) if index.isdecimal() else None


def joined(jobs: Sequence[Job]) -> list[Job]:
    """Arrays in the order of their first elements."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(array_of(job.job_id)[0], []).append(job)
    return [_one(number, several) for number, several in found.items()]


def _one(number: str, several: Sequence[Job]) -> Job:
    elements = tuple(
        sorted((job for job in several if "_" in job.job_id), key=lambda job: array_of(job.job_id)[1] or 0)
    )
    if not elements:
        return several[0]
    # of pending elements, one whose nodes are starting: a drain must see that the array has nodes
    by_kind = {kind_of(job): job for job in sorted(reversed(elements), key=lambda job: job.node_list != "")}
    shown = next(by_kind[kind] for kind in _RANK if kind in by_kind)
    on_nodes = (job.node_list for job in elements if job.phase in ("waiting", "running") and job.node_list)
    waiting = next((job for job in elements if job.state == "PENDING"), shown)
    return replace(
        shown,
        job_id=number,
        node_list=",".join(dict.fromkeys(on_nodes)),
        reason=waiting.reason,
        start=waiting.start,
        elements=elements,
    )


def kind_of(job: Job) -> str:
    return kind(job.state, job.phase)


def kind(state: str, phase: str) -> str:
    if phase == "waiting":
        return "pending"
    if phase in ("running", "unknown"):
        return "running"
    return {"COMPLETED": "completed", "CANCELLED": "cancelled"}.get(state.split(" ")[0].rstrip("+"), "failed")


def kinds(elements: Iterable[Job]) -> dict[int, str]:
    """By index."""
    return {array_of(job.job_id)[1] or 0: kind_of(job) for job in elements}


def counts(elements: Iterable[Job]) -> dict[str, int]:
    return counted(kinds(elements).values())


def counted(kinds: Iterable[str]) -> dict[str, int]:
    return present(Counter(kinds))


def together(live: Mapping[int, str], ended: Mapping[int, str]) -> dict[int, str]:
    """Index -> kind, of an array's elements. live: of those that Slurm still knows; ended: as their folders say."""
    return {index: settled(live.get(index), ended.get(index)) for index in sorted({*live, *ended})}


def settled(live: str | None, ended: str | None) -> str:
    """Slurm knows better whether an element runs, perhaps again; its folder, whether it succeeded."""
    if ended is None or (live and not (live == "completed" and ended != "without result")):
        return live or "without result"
    return ended


def present(found: Mapping[str, int]) -> dict[str, int]:
    """The counts without zeros, in the order of KINDS."""
    return {kind: found[kind] for kind in KINDS if found.get(kind)}


def words(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in present(found).items())
