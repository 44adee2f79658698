"""Why a training job waits, how it ended, and what is known to help."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpucluster.following import explain
from gpucluster.following.explain import Explanation
from gpucluster.following.known import find
from gpucluster.following.known.cause import Found, first
from gpucluster.following.known.table import CAUSES
from gpucluster.following.logs import Selection
from gpucluster.sagemaker.following import jobs, logs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Step, Training

_RECENT_S = 600.0
"""How much of the end of the log is searched."""
_OF_RANK = re.compile(r"(?P<who>rank (?P<rank>\d+) on algo-\d+) exited with code \d+: (?P<reason>.*)", re.DOTALL)
"""The reason that our program in the container writes (gpucluster_job/sagemaker/ending.py)."""
_OF_TOOLKIT = re.compile(r'ErrorMessage "(?P<reason>.*?)"\s*Command ', re.DOTALL)


def of(account: Account, name: str, now: float | None = None) -> Explanation:
    """Raises AwsError, UsageError."""
    now = now or time.time()
    job = jobs.describe(account, name)
    log = _end_of_log(account, job, now)
    found = [*_of_state(job, now), *_of_failure(job), *_of_log(job, log)]
    return explain.made(job.name, _state(job, found), [*_lines(job, log, now)], found)


def _end_of_log(account: Account, job: Training, now: float) -> list[str]:
    """Empty before it has started, and if nobody needs it."""
    if job.started is None or job.status == "Completed":
        return []
    since = (job.finished or now) - _RECENT_S
    return [*logs.lines(account, job.name, Selection(since=since, tail=explain.READ_LINES))]


def _of_state(job: Training, now: float) -> Iterator[Found]:
    message = None if job.ended else first(CAUSES, "StatusMessage", job.message)
    found = message or first(CAUSES, "SecondaryStatus", f"{job.secondary} for {job.lasts(now):.0f} s")
    if found:
        yield found


def _of_failure(job: Training) -> list[Found]:
    """What only SageMaker says, then the error of the rank or of the program."""
    if job.status != "Failed":
        return []
    own, reported = first(CAUSES, "FailureReason", job.failure), _error(job.failure)
    if own and not (reported and own.cause.id == "sagemaker-user-script"):
        return [own]
    who, reason = reported or ("", "")
    known = find.ending_error(reason) if reason else []
    return [replace(each, where=who) for each in known] or ([own] if own else [])


def _error(failure: str) -> tuple[str, str] | None:
    """Who failed, and the last words."""
    if found := _OF_RANK.search(failure):
        return found["who"], found["reason"]
    if found := _OF_TOOLKIT.search(failure):
        return "", found["reason"].strip().splitlines()[-1] if found["reason"].strip() else ""
    return None


def _of_log(job: Training, log: Sequence[str]) -> list[Found]:
    found = first(CAUSES, "training log", "\n".join(log))
    if found is None or (found.cause.id == "sagemaker-stalled-pipe" and not _has_pipes(job)):
        stalled = first(tuple(each for each in CAUSES if each.id == "horovod-stalled"), "rank", "\n".join(log))
        return [stalled] if stalled and not job.ended else []
    return [found]


def _has_pipes(job: Training) -> bool:
    inputs: Sequence[Any] = job.answer.get("InputDataConfig", ())
    usual = job.answer["AlgorithmSpecification"].get("TrainingInputMode")
    return any(each.get("InputMode", usual) == "Pipe" for each in inputs)


def _state(job: Training, found: Sequence[Found]) -> str:
    """As `explain` has them for jobs of the cluster."""
    if any(each.cause.state == "hung" for each in found):
        return "hung"
    if job.status == "Completed":
        return "completed"
    if job.ended:
        return "dead" if job.failed else "cancelled"
    return "pending" if job.waits else "running"


def _lines(job: Training, log: Sequence[str], now: float) -> Iterator[str]:
    yield job.sentence if job.ended else f"job {job.name} {job.doing(now)}"
    if not job.ended and job.message:
        yield f"SageMaker says: {job.message}"
    if steps := [*_merged(job.steps)]:
        yield f"so far: {'; '.join(each.words(now) for each in steps)}"
    if again := sum(each.status == "Interrupted" for each in job.steps):
        yield f"its spot instances were interrupted {again} time{'s' * (again > 1)}"
    if job.failed and log:
        rank = _OF_RANK.search(job.failure)
        own = [line for line in log if rank and line.startswith(f"[{rank['rank']} ")]
        yield f"the last lines of rank {rank['rank']}:" if rank and own else "the end of its log:"
        yield from (f"  {line}" for line in (own or log)[-explain.SHOWN_LINES :])


def _merged(steps: Sequence[Step]) -> Iterator[Step]:
    """Those that last, one after the other: a new message begins no new one."""
    for index, step in enumerate(steps):
        if index and steps[index - 1].status == step.status:
            continue
        last = next((each for each in steps[index + 1 :] if each.status != step.status), None)
        ended = last.begun if last else steps[-1].ended
        if step.status not in ("Completed", "Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded"):
            yield replace(step, ended=ended)
