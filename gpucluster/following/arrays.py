"""The state of each element of an array, as rows of a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpucluster.errors import UsageError
from gpucluster.following import jobs
from gpucluster.head import arrays, slurm
from gpucluster.head.remote import Remote


@dataclass(frozen=True)
class Element:
    index: int
    job_id: str
    """The job ID of its newest run."""
    parameters: dict[str, str]
    state: str
    """One of head/arrays.KINDS."""
    result: dict[str, Any]
    """result.json without the history of its metrics. Empty if there is none."""

    @property
    def metrics(self) -> dict[str, float | None]:
        """The last value of each metric. The job's user can write into the file."""
        found = self.result.get("metrics")
        if not isinstance(found, dict):
            return {}
        return {name: _number(each.get("last")) for name, each in found.items() if isinstance(each, dict)}

    @property
    def reason(self) -> str:
        return jobs.Ending("FAILED", self.result).reason if self.state == "failed" else ""


def require(remote: Remote, job_id: str) -> None:
    """Raises UsageError."""
    job = jobs.require_folder(remote, job_id)
    if jobs.is_array(remote, job_id):
        return
    if last := jobs.last_of(remote, job_id):
        again = "`gpucluster data shard` again makes the missing shards"
        hint = f"`gpucluster why {last}` says how they ended; {again}"
        raise UsageError(f"job {job_id} packs shards: its parts have no values and metrics", hint)
    if job and job.elements:
        what = "an array that `gpucluster submit` did not make: its elements have no values and metrics"
        raise UsageError(f"job {job_id} is {what}", f"`gpucluster why {job.elements[0].job_id}` explains one element")
    raise UsageError(f"job {job_id} is not an array or a sweep", "`gpucluster why` and `logs` show one job")


def elements(remote: Remote, array_id: str) -> list[Element]:
    """In the order of their indexes. Slurm's state of an element overrides the one in its folder."""
    done = remote.run(jobs.elements_argv(remote, array_id)).check(f"cannot list the elements of job {array_id}")
    found = json.loads(done.stdout)
    again = {arrays.array_of(each["job_id"])[0] for each in found} | {array_id}
    live = {each.job_id: each for number in sorted(again) for each in _known(remote, number)}
    return [_element(each, live.get(each["job_id"])) for each in found]


def _known(remote: Remote, array_id: str) -> Sequence[slurm.Job]:
    job = jobs.find(remote, array_id)
    return job.elements if job else ()


def _element(found: dict[str, Any], live: slurm.Job | None) -> Element:
    state = arrays.settled(arrays.kind_of(live) if live else None, _ended(found))
    return Element(found["index"], found["job_id"], found["parameters"], state, found["result"] or {})


def _ended(found: dict[str, Any]) -> str:
    if found["result"] and found["result"]["exit_code"] == 0:
        return "completed"
    if found.get("cancelled"):  # unknown to jobs that an earlier version submitted
        return "cancelled"
    return "failed" if found["result"] else "without result"


def failed(found: Sequence[Element]) -> list[int]:
    """The indexes of all elements that ended without success."""
    return [each.index for each in found if each.state not in ("running", "pending", "completed")]


def table(found: Sequence[Element], usd: Mapping[str, float | None] | None = None) -> list[list[str]]:
    """The heading, and a row for each element: its values, its state, its metrics, its price, and why it failed. usd:
    by job id; without it there is no price."""
    names = list(dict.fromkeys(name for each in found for name in each.parameters))
    metrics = list(dict.fromkeys(name for each in found for name in each.metrics))
    price = ["USD"] if usd else []
    rows = [["element", *names, "state", *metrics, *price, "reason"]]
    for each in found:
        values = [each.parameters.get(name, "") for name in names]
        measured = [_text(each.metrics.get(name)) for name in metrics]
        cost = [_usd(usd.get(each.job_id, 0.0))] if usd else []
        rows.append([each.job_id, *values, each.state, *measured, *cost, each.reason])
    return rows


def _usd(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"


def _number(value: Any) -> float | None:
    """Not what no float can hold."""
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return value if is_one else None


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
