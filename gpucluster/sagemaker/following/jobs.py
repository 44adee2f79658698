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

SEARCHED = 300
"""How many of our newest jobs are searched for those that have not ended."""
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
    for each in _summaries(account):
        return str(each["TrainingJobName"])
    raise UsageError(f"no training job was submitted in {account.target.region}", "`gpucluster submit` submits one")


def listed(account: Account, count: int) -> list[Training]:
    """All that have not ended, and the `count` newest that have, in the order of their creation."""
    live, ended = list[str](), list[str]()
    for each in islice(_summaries(account), SEARCHED):
        over = each["TrainingJobStatus"] not in ("InProgress", "Stopping")
        (ended if over else live).append(each["TrainingJobName"])
    return _described(account, [*live, *ended[:count]])


def created(account: Account, since_s: float, until_s: float) -> list[Training]:
    """All that were created in this time, in that order."""
    times = {"CreationTimeAfter": since_s, "CreationTimeBefore": until_s}
    return _described(account, [each["TrainingJobName"] for each in _summaries(account, **times)])


def _described(account: Account, names: Sequence[str]) -> list[Training]:
    account.client("sagemaker")  # threads share it
    with ThreadPoolExecutor(_AT_ONCE) as several:
        found = list(several.map(lambda name: describe(account, name), names))
    return sorted(found, key=lambda each: each.created)


def _summaries(account: Account, **times: float) -> Iterator[dict[str, Any]]:
    """Those that `submit` has made, the newest first."""
    asked = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": _PAGE}
    for page in account.pages("sagemaker", "list_training_jobs", **asked, **times):
        for each in page["TrainingJobSummaries"]:
            if OURS.fullmatch(each["TrainingJobName"]):
                yield each


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
