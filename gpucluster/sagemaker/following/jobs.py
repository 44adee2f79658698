"""The training jobs of an account, and one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from gpucluster.errors import AwsError, UsageError
from gpucluster.sagemaker.following import money
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import OURS, Training, clock

SEARCHED = 1000
"""How many of the account's newest jobs are searched for ours. An account has two calls of ListTrainingJobs a second,
and no more on request (aws-solutions/deepracer-on-aws#87); others may have made thousands of jobs."""
_LIVE = ("InProgress", "Stopping")
_PAGE = 100
"""The most that ListTrainingJobs answers: botocore's model, MaxResults."""
_AT_ONCE = 4
_UNKNOWN = "Requested resource not found"
"""What DescribeTrainingJob answers, as a ValidationException: github.com/boto/boto3/issues/2808."""
_ENDED = "The request was rejected because the training job is in status"
"""What StopTrainingJob answers: github.com/awslabs/benchmark-ai/issues/928."""


def describe(account: Account, name: str) -> Training:
    """Raises UsageError if there is none with this name."""
    try:
        return Training(account.call("sagemaker", "describe_training_job", TrainingJobName=name))
    except AwsError as error:
        if _UNKNOWN not in error.message:
            raise
        where = f"SageMaker has no training job {name} in {account.target.region}"
        raise UsageError(where, "`gpucluster jobs` lists them; sagemaker.yaml has the region") from None


def newest(account: Account) -> str:
    """Raises UsageError if there is none."""
    for each in islice(_summaries(account), SEARCHED):
        if _is_ours(each):
            return str(each["TrainingJobName"])
    raise UsageError(f"no training job was submitted in {account.target.region}", "`gpucluster submit` submits one")


def listed(account: Account, count: int) -> list[Training]:
    """All that have not ended, and the `count` newest that have, in the order of their creation."""
    found = [*islice(_summaries(account), SEARCHED)]
    if len(found) == SEARCHED:  # older ones may still run
        found += (each for status in _LIVE for each in _summaries(account, StatusEquals=status))
    status = {each["TrainingJobName"]: each["TrainingJobStatus"] for each in found if _is_ours(each)}
    ended = [name for name in status if status[name] not in _LIVE]
    return _described(account, [*(name for name in status if status[name] in _LIVE), *ended[:count]])


def created(account: Account, since_s: float, until_s: float) -> list[Training]:
    """All that were created in this time, in that order."""
    times = {"CreationTimeAfter": since_s, "CreationTimeBefore": until_s}
    return _described(account, [each["TrainingJobName"] for each in _summaries(account, **times) if _is_ours(each)])


def _described(account: Account, names: Sequence[str]) -> list[Training]:
    account.client("sagemaker")  # threads share it
    with ThreadPoolExecutor(_AT_ONCE) as several:
        found = list(several.map(lambda name: describe(account, name), names))
    return sorted(found, key=lambda each: each.created)


def _summaries(account: Account, **which: float | str) -> Iterator[dict[str, Any]]:
    """All of the account, the newest first."""
    asked = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": _PAGE}
    for page in account.pages("sagemaker", "list_training_jobs", **asked, **which):
        yield from page["TrainingJobSummaries"]


def _is_ours(summary: dict[str, Any]) -> bool:
    """Whether `submit` has made it."""
    return OURS.fullmatch(summary["TrainingJobName"]) is not None


def row(job: Training, region: str, now: float | None = None) -> dict[str, Any]:
    """For the list of both targets."""
    now = now or time.time()
    cost = money.of(job, region, now)
    return {
        "job_id": job.name,
        "name": job.title,
        "state": job.state,
        "nodes": job.instances,
        "elapsed": clock(job.elapsed(now)),
        "reason": job.doing(now),
        "target": "sagemaker",
        "instance_type": job.instance_type,
        "secondary_state": job.secondary,
        "usd": None if cost.usd is None else round(cost.usd, 2),
    }


def stop(account: Account, name: str) -> bool:
    """False if the job had already ended. Raises UsageError if there is none."""
    if describe(account, name).ended:
        return False
    try:
        account.call("sagemaker", "stop_training_job", TrainingJobName=name)
    except AwsError as error:
        if _ENDED not in error.message:
            raise
        return False
    return True
