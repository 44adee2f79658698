"""What was spent, by day, user, partition and job, and what was wasted: `gpucluster/following/cost.py` computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpucluster.ui.reading import Reader

if TYPE_CHECKING:
    from gpucluster.following.cost import Row

DAYS = (1, 7, 30)
MOST = 20
BY = ("day", "partition", "user")


def context(reader: Reader, query: Mapping[str, str]) -> dict[str, Any]:
    days = int(query["days"]) if query.get("days", "") in map(str, DAYS) else 7
    answer = reader.costs(days)
    shown: dict[str, Any] = {"answer": answer, "days": days, "choices": DAYS, "account": answer.value}
    if answer.value is None:
        return shown
    from gpucluster.following import cost

    jobs = cost.of_jobs(answer.value)
    dearest = sorted(jobs, key=lambda job: job.usd or 0.0, reverse=True)[:MOST]
    by = {name: cost.rows(answer.value, name) for name in BY}
    return shown | {
        "whole": cost.total(answer.value.charges),
        "jobs": len(jobs),
        "by": {name: rows if name == "day" else _dearest(rows) for name, rows in by.items()},
        "tops": {name: max((row.usd for row in rows), default=0.0) or 1.0 for name, rows in by.items()},
        "dearest": dearest,
        "top": max((job.usd or 0.0 for job in dearest), default=0.0) or 1.0,
        "saved": sum(job.saved_usd or 0.0 for job in jobs),
        "unpriced": sum(job.usd is None for job in jobs),
    }


def _dearest(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row.usd)[:MOST]
