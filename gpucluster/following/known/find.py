"""Finds causes in what is known of a job.

Nobody is blamed wrongly: a program may print, log or survive any text, so an error counts only where it ended the rank
that failed first. Earlier lines of that rank count if its error says nothing of its own, and the lines of other ranks
never do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpucluster.following.known.cause import Found, Place, all_of, first
from gpucluster.following.known.table import CAUSES
from gpucluster.head.slurm import Job, Node

if TYPE_CHECKING:
    from gpucluster.following.jobs import Ending

_SAYS_NOTHING = re.compile(
    r"^(it printed nothing|killed by SIG\w+$|exited with code|\w+ exited with code|Command .* returned non-zero"
    r"|subprocess\.CalledProcessError|.*\bunhandled (system|cuda) error\b|.*NCCL error in:|.*ChildFailedError"
    r"|.*ProcessRaisedException|.*ProcessExitedException)"
)
"""Reasons of ranks whose last lines may say more."""
_ENDED_BY_ITSELF = ("job-memory", "memory")
"""What the kernel did counts more than the signal that the program got."""
_LABEL = re.compile(r"^\[[^ \]]+ [^]]+\] ")
_NOT_OF_RANKS = re.compile(r"^(\[launcher\] |slurmstepd|srun: |error: )")


def pending(job: Job, nodes: Iterable[Node] = ()) -> list[Found]:
    found = [*_one(first(CAUSES, "job's reason", job.reason.strip("()")))]
    return [*found, *of_nodes({node.name: node.reason for node in nodes if node.reason})]


def of_nodes(reasons: Mapping[str, str]) -> list[Found]:
    """Each cause once, with its nodes."""
    by_cause: dict[str, tuple[Found, list[str]]] = {}
    for node, reason in reasons.items():
        if found := first(CAUSES, "node's reason", reason):
            by_cause.setdefault(found.sentence, (found, []))[1].append(node)
    return [replace(found, where=", ".join(dict.fromkeys(names))) for found, names in by_cause.values()]


def starting(said: Iterable[str]) -> list[Found]:
    """said: why nodes have not joined, as `causes.of` has it."""
    return _once(found for line in said if (found := first(CAUSES, "node's reason", line)))


def advice(refusal: str) -> str | None:
    """refusal: what sbatch says against a job."""
    found = first(CAUSES, "sbatch", refusal)
    return f"{found.words}: {found.cause.advice}" if found else None


def dead(ending: Ending, own: Sequence[str]) -> list[Found]:
    """own: the last lines of the rank that failed first; those of the whole log if no rank is known."""
    reason = str(ending.result.get("reason") or "")
    if ending.failed_label and not (own and own[0].startswith(ending.failed_label)):
        own = ()  # the rank printed nothing: these are other ranks' lines
    found = ending_error(reason, [_LABEL.sub("", line, count=1) for line in own if ending.failed_label])
    slurms = () if ending.failed_label else [line for line in own if _NOT_OF_RANKS.match(line)]
    if not ending.failed_label:  # the launcher's, Slurm's or our own words
        found = found or [*_in_lines("launcher", [*slurms, reason]), *_in_lines("rank", slurms)][:1]
    return [replace(each, where=_who(ending)) for each in found]


def ending_error(reason: str, earlier: Sequence[str] = ()) -> list[Found]:
    """reason: the last words of the rank. An error that only reports another rank's end is never more than that."""
    found = _strongest(all_of(CAUSES, "rank", reason))
    if found and not found[0].cause.reports and found[0].cause.id != "killed":
        return found
    more = [*_in_lines("rank", earlier)] if _SAYS_NOTHING.match(reason) else []
    own = [each for each in more if not each.cause.reports]
    return own[:1] or found or more[:1]


def _in_lines(place: Place, lines: Sequence[str]) -> Iterator[Found]:
    """The newest line first."""
    return (found for line in reversed(lines) for found in _strongest(all_of(CAUSES, place, line)))


def _strongest(found: Iterable[Found]) -> list[Found]:
    ranked = sorted(found, key=lambda each: (each.cause.reports, each.cause.id not in _ENDED_BY_ITSELF))
    return ranked[:1]


def _who(ending: Ending) -> str:
    node = ending.result.get("failed_node")
    return f"{ending.failed_rank} on {node}" if ending.failed_rank and node else ending.failed_rank


def _one(found: Found | None) -> list[Found]:
    return [found] if found else []


def _once(found: Iterable[Found]) -> list[Found]:
    return list({each.cause.id: each for each in found}.values())
