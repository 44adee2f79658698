"""The source of the page that reads a cluster, over one SSH connection, as the user's own account there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpucluster import account
from gpucluster.errors import UsageError
from gpucluster.following import arrays, cancelling, jobs, logs, metrics, timeline, usage
from gpucluster.following.arrays import Element
from gpucluster.following.logs import Selection
from gpucluster.following.metrics import Point
from gpucluster.following.timeline import Span
from gpucluster.following.usage import Series
from gpucluster.head import arrays as head_arrays
from gpucluster.head import hostlist, mounted, slurm
from gpucluster.head.mounted import Mount
from gpucluster.head.remote import Remote
from gpucluster.layout import Layout
from gpucluster.ui.answers import Answers
from gpucluster.ui.source import HistoryRow, Job, Script

if TYPE_CHECKING:
    from gpucluster.following.cost import Account, JobCost
    from gpucluster.following.explain import Explanation
    from gpucluster.following.overview import JobRow, Overview

MOST_JOBS, NEWEST_JOBS = 5000, 100
COST_DAYS = 30
KEPT_S = 60.0
"""How long prices of jobs are kept, for which accounting reads a month, and what older jobs left in their folders."""
MOST_FILES = 500
LONGEST = 400_000
"""Bytes of a file that are shown."""

# The files of a job's code. Names with control characters are left out: they are no text for a page.
_FILES = (
    'cd "$1" 2>/dev/null || exit 0; find -H . -type f ! -path "*/.git/*" -printf "%P\\0" | head -z -n "$2" | sort -z'
)
# Nothing that a link leads out of the folder to: the page shows the job's code, and no other file of the account.
_FILE = """
real=$(readlink -e -- "$1/$2") && folder=$(readlink -e -- "$1") || { echo "there is no such file" >&2; exit 1; }
case $real in "$folder"/*) ;; *) echo "it is a link to a place outside of the code" >&2; exit 1 ;; esac
[ -f "$real" ] || { echo "it is not a file" >&2; exit 1; }
exec head -c "$3" -- "$real"
"""
_TWO = 'head -c "$2" -- "$1/job.sbatch" 2>/dev/null; printf "\\0"; head -c "$2" -- "$1/job.yaml" 2>/dev/null'
_RESULTS = """
folder=$1; shift
for id; do printf "%s\\0" "$id"; cat "$folder/by-id/$id/result.json" 2>/dev/null; printf "\\0"; done
"""


@dataclass(frozen=True)
class ClusterSource:
    layout: Layout
    remote: Remote
    may_write: bool = False
    _kept: Answers = field(default_factory=Answers, repr=False)

    @property
    def cluster(self) -> str:
        return self.layout.name

    def overview(self) -> Overview:
        from gpucluster.following import overview

        return overview.of(self.remote, self.layout.config)

    def history(self) -> Sequence[HistoryRow]:
        """Accounting knows the state and the price of ended jobs, and the folder the rest."""
        live = {row.job_id: row for row in self.overview().jobs}
        past = {**self._folders(), **{job.job_id: job for job in jobs.past(self.remote, NEWEST_JOBS)}}
        paid = self._paid()
        found = [
            row_of(job_id, live.get(job_id), past.get(job_id), paid.get(job_id)) for job_id in {**live, **past, **paid}
        ]
        return sorted(found, key=lambda row: _number(row.job_id), reverse=True)

    def _folders(self) -> Mapping[str, jobs.Past]:
        """All of them are megabytes, so they are read seldom: only the newest change often."""

        def read() -> Mapping[str, jobs.Past]:
            return {job.job_id: job for job in jobs.past(self.remote, MOST_JOBS)}

        return self._kept.ask("folders", KEPT_S, read).value or {}

    def _paid(self) -> Mapping[str, JobCost]:
        """Empty without accounting: the page shows the jobs all the same."""
        return self._kept.ask("paid", KEPT_S, self._read_paid).value or {}

    def _read_paid(self) -> Mapping[str, JobCost]:
        from gpucluster.following import cost

        now_s = time.time()
        return {job.job_id: job for job in cost.of_jobs(self.costs(now_s - COST_DAYS * 86400, now_s))}

    def job(self, job_id: str) -> Job:
        live = jobs.require(self.remote, job_id)
        result, folder = jobs.result(self.remote, job_id), self._folder(job_id)
        row = row_of(job_id, None, past_of(job_id, folder, result) if folder else None, self._paid().get(job_id))
        row = replace(row, elements=row.elements or counts(result))
        if live:
            row = _live(row, live, self._started_s(folder))
        return Job(
            row=row,
            partition=live.partition if live else "",
            node_list=_nodes(live, result),
            ranks=_whole((result or {}).get("world_size")),
            time_limit=live.time_limit if live else "",
            result=result,
            folder=folder,
            summary=usage.summary(self.remote, job_id) if row.phase == "done" else None,
        )

    def _folder(self, job_id: str) -> str:
        try:
            return jobs.real_folder(self.remote, job_id)
        except UsageError:
            return ""

    def _started_s(self, folder: str) -> float | None:
        """When the newest run began."""
        return _seconds(self.remote.run(["cat", f"{folder}/started"]).stdout.strip()) if folder else None

    def log(self, job_id: str, selection: Selection) -> Sequence[str]:
        """The selection's tail bounds it."""
        return list(islice(logs.lines(self.remote, job_id, selection), selection.tail))

    def metrics(self, job_id: str) -> Mapping[str, Sequence[Point]]:
        return metrics.points(self.remote, job_id)

    def series(
        self, job_id: str, nodes: Sequence[str], start_s: float, end_s: float, names: Sequence[str], step_s: float
    ) -> Sequence[Series]:
        return usage.of_job(self.remote, job_id, nodes, start_s, end_s, names, step_s)

    def why(self, job_id: str) -> Explanation:
        from gpucluster.following import explain

        return explain.of(self.remote, self.layout.config, job_id)

    def timeline(self, job_id: str) -> Sequence[Span]:
        return timeline.of(self.remote, job_id)

    def elements(self, job_id: str) -> Sequence[Element]:
        return arrays.elements(self.remote, job_id)

    def script(self, job_id: str) -> Script:
        folder = jobs.real_folder(self.remote, job_id)
        both = self.remote.run(["sh", "-c", _TWO, "sh", folder, str(LONGEST)]).stdout
        sbatch, _, spec = both.partition("\0")
        listed = self.remote.run(["sh", "-c", _FILES, "sh", f"{folder}/code", str(MOST_FILES)]).stdout
        return Script(sbatch, spec, tuple(path for path in listed.split("\0") if path and path.isprintable()))

    def code(self, job_id: str, path: str) -> str:
        folder = f"{jobs.real_folder(self.remote, job_id)}/code"
        done = self.remote.run(["sh", "-c", _FILE, "sh", folder, path, str(LONGEST)])
        return done.check(f"cannot read {path} of job {job_id}").stdout

    def results(self, job_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        argv = ["sh", "-c", _RESULTS, "sh", self.remote.real(account.jobs()), *job_ids]
        parts = self.remote.run(argv).check("cannot read results").stdout.split("\0")
        found = ((job_id, _json(text)) for job_id, text in zip(parts[::2], parts[1::2], strict=False))
        return {job_id: result for job_id, result in found if result}

    def costs(self, since_s: float, until_s: float) -> Account:
        from gpucluster.following import cost

        self._require_ours("what it costs")
        return cost.read(self.remote, self.layout.config, since_s, until_s)

    def storage(self) -> Sequence[Mount]:
        self._require_ours("which file systems it has")
        wanted = mounted.expected(self.layout.config)
        argv, limit_s = mounted.argv(list(wanted)), mounted.PATIENCE_S * (len(wanted) + 1)
        return list(mounted.parse(self.remote.run(argv, timeout_s=limit_s).stdout, wanted))

    def _require_ours(self, what: str) -> None:
        if self.layout.site:
            raise UsageError(
                f"the context {self.cluster} is a cluster that GpuCluster did not build: {what} is not known"
            )

    def cancel(self, job_id: str) -> None:
        job = jobs.require(self.remote, job_id)
        if job and job.phase != "done":
            cancelling.cancel(self.remote, job_id)


def past_of(job_id: str, folder: str, result: dict[str, Any] | None) -> jobs.Past:
    """`result`: of `jobs.result`, in which an array's elements are counts, and no ranges of indexes."""
    own = {key: value for key, value in result.items() if key != "elements"} if isinstance(result, dict) else None
    return jobs.Past(job_id, folder, own)


def counts(result: Mapping[str, Any] | None) -> dict[str, int]:
    found = result.get("elements") if isinstance(result, dict) else None
    return {str(kind): n for kind, n in found.items() if isinstance(n, int) and n} if isinstance(found, dict) else {}


def row_of(job_id: str, live: JobRow | None, past: jobs.Past | None, paid: JobCost | None) -> HistoryRow:
    """`live`: if it has not ended; `past`: if it has a folder; `paid`: if accounting knows it."""
    result = (past.result if past else None) or {}
    name = past.folder.rpartition("/")[2].rsplit("-", 3)[0] if past else ""
    user = live.user if live else paid.user if paid else account.user()
    named = live.name if live else paid.name if paid and not name else name
    usd = paid.usd if paid else None
    if live:
        began = time.time() - live.elapsed_s if live.node_list else None
        return HistoryRow(job_id, named, user, live.state, live.nodes, began, None, live.reason, usd)
    state = past.state if past else "UNKNOWN"
    if paid and _decides(slurm.base_state(paid.state), state):
        state = slurm.base_state(paid.state)
    started, ended = (_seconds(result.get(key)) for key in ("started_at", "ended_at"))
    elements = past.elements if past else {}
    reason = past.reason if past else ""
    return HistoryRow(job_id, named, user, state, _whole(result.get("nodes")), started, ended, reason, usd, elements)


def _decides(accounted: str, of_folder: str) -> bool:
    """Whether accounting knows better than the folder how a job ended. It knows nothing of exports; and what it said a
    minute ago, when the job ran, is old."""
    if of_folder == "UNKNOWN":
        return True
    return accounted != "COMPLETED" and slurm.job_state(accounted).phase == "done"


def _live(row: HistoryRow, live: slurm.Job, started_s: float | None) -> HistoryRow:
    """Slurm's state overrides the folder's, but Slurm knows nothing of exports, which may have failed."""
    state = slurm.base_state(live.state)
    state = "FAILED" if (state, row.state) == ("COMPLETED", "FAILED") else state
    row = replace(row, name=live.name, state=state, nodes=live.nodes)
    if live.elements and not row.elements:
        row = replace(row, elements=head_arrays.counts(live.elements))
    if row.phase == "done":
        return row
    reason = slurm.pending_reason(live.reason) if state == "PENDING" else ""
    return replace(row, started_s=started_s if row.phase == "running" else None, ended_s=None, reason=reason)


def _nodes(live: slurm.Job | None, result: Mapping[str, Any] | None) -> tuple[str, ...]:
    if live and live.phase == "running":
        return hostlist.names(live.node_list)
    found = (result or {}).get("node_list")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _seconds(moment: object) -> float | None:
    try:
        found = datetime.fromisoformat(str(moment))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _whole(value: object) -> int:
    """The job's user can write into result.json."""
    return value if isinstance(value, int) else 0


def _number(job_id: str) -> int:
    digits = "".join(islice((letter for letter in job_id if letter.isdecimal()), 18))
    return int(digits or 0)


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
