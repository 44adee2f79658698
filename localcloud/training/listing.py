"""Which jobs a call of ListTrainingJobs gets, and in which order. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localcloud.training.jobs import Job

_USUAL_PAGE = 10  # as many as AWS's consoles and SDKs get without MaxResults: assumed


def page(jobs: Iterable[Job], asked: Mapping[str, Any]) -> tuple[Sequence[Job], str | None]:
    """`asked`: the request. The token of the next page is the name of its first job."""
    found = sorted((job for job in jobs if _wanted(job, asked)), key=lambda job: job.name)
    key = {"Name": lambda job: job.name, "Status": lambda job: job.status}.get(
        str(asked.get("SortBy")), lambda job: job.created
    )
    found.sort(key=key, reverse=asked.get("SortOrder") == "Descending")
    names = [job.name for job in found]
    token = asked.get("NextToken")
    start = names.index(token) if token in names else 0
    size = int(asked.get("MaxResults") or _USUAL_PAGE)
    return found[start : start + size], (names[start + size] if start + size < len(names) else None)


def _wanted(job: Job, asked: Mapping[str, Any]) -> bool:
    return (
        str(asked.get("NameContains") or "").lower() in job.name.lower()
        and asked.get("StatusEquals") in (None, "", job.status)
        and _within(job.created, asked, "CreationTime")
        and _within(job.changed, asked, "LastModifiedTime")
        and not asked.get("WarmPoolStatusEquals")
        and not asked.get("TrainingPlanArnEquals")
    )


def _within(moment: datetime.datetime, asked: Mapping[str, Any], name: str) -> bool:
    after, before = (asked.get(f"{name}{side}") for side in ("After", "Before"))
    stamp = moment.timestamp()
    return (after is None or stamp > _stamp(after)) and (before is None or stamp < _stamp(before))


def _stamp(value: Any) -> float:
    """JSON 1.1 sends seconds since the epoch."""
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
    return float(value)
