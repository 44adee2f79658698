"""Logs of jobs: a job has one, and so has each element of an array and each part of `data shard --array`."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpucluster.errors import CloudError, UsageError
from gpucluster.following import jobs, log_lines
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
Tell = Callable[[str], None]
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Selection:
    """Which lines of a log. Times are Unix seconds; a negative one is before now, by the head node's clock. They are
    exact to a few seconds (gpucluster_job/log.py), and no line that was written between them is missing."""

    rank: int | str | None = None
    """Or a role's label: scheduler, chief, server-0."""
    node: str | None = None
    since: float | None = None
    until: float | None = None
    tail: int | None = None
    grep: str | None = None
    """In the syntax of grep -E."""
    run: int | None = None
    """1 is the first run of a job that was requeued."""
    longest: int | None = None
    """Bytes of a line of the last lines. A longer one is cut, and says how long it is."""
    launcher: bool = False
    """True: also a launcher's report about failed ranks, which is folded into one line otherwise."""


ALL, FOLDED = Selection(launcher=True), Selection()


def follow(remote: Remote, job_id: str, tell: Tell, selection: Selection = ALL) -> Iterator[str]:
    """The lines of its log until it ends, even if the head node is unreachable at times. Raises UsageError for an
    array, whose elements have one log each."""
    patience = Patience(job_id, tell)
    patience.ask(lambda: _require_one(remote, job_id))
    log = patience.ask(lambda: log_file(remote, job_id))
    return _followed(remote, job_id, _Asked(log, selection), jobs.Watch(remote, job_id, tell, patience).ended, patience)


def _followed(remote: Remote, job_id: str, asked: _Asked, stop: Stop, patience: Patience) -> Iterator[str]:
    """Each line once: after a broken connection it continues at the byte at which the next line begins."""
    offset = 0
    while True:
        try:
            for line in _answered(remote, job_id, asked.argv(follow=True, offset=offset), stop):
                at, _, text = line.partition(" ")
                offset = int(at)
                yield text
            return
        except CloudError as error:
            patience.outlast(error)


def lines(remote: Remote, job_id: str, selection: Selection = ALL) -> Iterator[str]:
    """Without their ends. The head node chooses them, and neither side keeps more than a few MiB. Raises UsageError for
    an array, whose elements have one log each, and for a job without a log."""
    _require_one(remote, job_id)
    return _answered(remote, job_id, _Asked(log_file(remote, job_id), selection).argv(follow=False))


def log(remote: Remote, job_id: str) -> str:
    """All of it. Raises UsageError for an array, whose elements have one log each."""
    _require_one(remote, job_id)
    return remote.get(log_file(remote, job_id)).decode(errors="replace")


@dataclass(frozen=True)
class _Asked:
    log: str
    selection: Selection

    def argv(self, **more: Any) -> list[str]:
        asked = {"log": self.log, **asdict(self.selection), **more}
        return ["/usr/bin/python3", "-IS", "-c", program(), json.dumps(asked)]


def program() -> str:
    return Path(log_lines.__file__).read_text(encoding="utf-8")


def _answered(remote: Remote, job_id: str, argv: Sequence[str], stop: Stop | None = None) -> Iterator[str]:
    """The program's lines after its first one. Raises UsageError if that one refuses."""
    found = split(remote.stream(argv, what=f"cannot read the log of job {job_id}", stop=stop))
    _check(job_id, json.loads(next(found, "{}")))
    yield from found


def _check(job_id: str, answer: dict[str, str]) -> None:
    why = f"`gpucluster why {job_id}` says what is known of it"
    if "missing" in answer:
        raise UsageError(f"job {job_id} has no log: there is no file {answer['missing']}", why)
    if "refused" in answer:
        raise UsageError(f"--grep: {answer['refused']}", "it takes an expression of `grep -E`: 'loss|accuracy'")
    if answer.get("lacks") == "times":
        lacks = "the log does not say when its lines were written"
        raise UsageError(
            f"job {job_id}: {lacks}: an earlier version of GpuCluster submitted it, or it has not started",
            "--since, --until and --run need that; --tail shows its last lines",
        )
    if "lacks" in answer:
        raise UsageError(f"job {job_id} has no such run: its newest is {answer['lacks']}", "run 1 is the first")


def split(pieces: Iterator[bytes]) -> Iterator[str]:
    """Lines of output that comes in pieces. A line of many pieces takes linear time."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    parts = list[str]()
    for piece in pieces:
        first, *others = decoder.decode(piece).split("\n")
        parts.append(first)
        for other in others:
            yield "".join(parts)
            parts = [other]
    parts.append(decoder.decode(b"", final=True))
    if rest := "".join(parts):
        yield rest


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
