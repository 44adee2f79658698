"""Logs of jobs: a job has one, and so has each element of an array and each part of `data shard --array`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpucluster.errors import UsageError
from gpucluster.following import jobs
from gpucluster.following.jobs import Ending, folder_of
from gpucluster.following.patience import Patience
from gpucluster.head import arrays
from gpucluster.head.remote import Remote

# The last lines of one rank, if it printed any: a launcher's own report, such as torchrun's, comes after them. A log
# may have many GB, and the job ends soon after its rank has failed: its lines are near the end.
_LAST_LINES = """
own=$([ -n "$2" ] && tail --bytes=100M "$1" | awk -v label="$2" 'index($0, label) == 1' | tail -n "$3")
if [ -n "$own" ]; then printf '%s\\n' "$own"; else tail -n "$3" "$1"; fi
"""


def follow(remote: Remote, job_id: str, tell: Callable[[str], None]) -> Iterator[str]:
    """The lines of its log until it ends, even if the head node is unreachable at times. Raises UsageError for an
    array, whose elements have one log each."""
    patience = Patience(job_id, tell)
    patience.ask(lambda: _require_one(remote, job_id))
    watch = jobs.Watch(remote, job_id, tell, patience)
    return remote.follow(f"{folder_of(remote, job_id)}/log.txt", stop=watch.ended, outlast=patience.outlast)


def log(remote: Remote, job_id: str) -> str:
    """Raises UsageError for an array, whose elements have one log each."""
    _require_one(remote, job_id)
    return remote.get(log_file(remote, job_id)).decode(errors="replace")


def _require_one(remote: Remote, job_id: str) -> None:
    if arrays.array_of(job_id)[1] is not None:
        return
    if jobs.is_array(remote, job_id):
        raise UsageError(f"job {job_id} has a log for each element", f"`gpucluster results {job_id}` lists them")
    log = f"{folder_of(remote, job_id)}/log.txt"
    if remote.run(["test", "-e", log]).exit_code and (last := jobs.last_of(remote, job_id)):
        shows = f"`gpucluster logs {job_id}_0` shows that of part 0, `gpucluster logs {last}` all when they have ended"
        raise UsageError(f"job {job_id} has a log for each part", shows)


def last_lines(remote: Remote, job_id: str, ending: Ending, count: int) -> list[str]:
    """Those of the rank that failed first; those of the whole log if no rank is known, or if it printed nothing."""
    argv = ["sh", "-c", _LAST_LINES, "sh", log_file(remote, job_id), ending.failed_label, str(count)]
    return remote.run(argv).stdout.splitlines()


def log_file(remote: Remote, job_id: str) -> str:
    """If the element ran again since, the log of this run has another name."""
    folder, (number, index) = folder_of(remote, job_id), arrays.array_of(job_id)
    earlier = f"{folder}/log-{number}.txt"
    if index is not None and remote.run(["test", "-e", earlier]).exit_code == 0:
        return earlier
    return f"{folder}/log.txt"
