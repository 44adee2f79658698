"""The training jobs of a sweep: `NAME-INDEX-TIME` of the sweep `NAME-TIME`."""

from __future__ import annotations

import json
import re
from typing import Any

from gpucluster.errors import UsageError
from gpucluster.following.arrays import Element
from gpucluster.sagemaker.following import jobs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Training

_NAME = re.compile(r"(?P<name>.+)(?P<time>-\d{8}-\d{6})")
VALUES = "GPUCLUSTER_SWEEP"
"""The job's variable with an element's values, as JSON."""
_KINDS = {
    "PENDING": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "COMPLETED": "completed",
    "CANCELLED": "cancelled",
}
"""State -> one of head/arrays.KINDS."""


def summaries(account: Account, sweep: str) -> dict[int, dict[str, Any]]:
    """Index -> what ListTrainingJobs says of that element. Empty for what is no sweep. Raises AwsError."""
    name = _NAME.fullmatch(sweep)
    if not name:
        return {}
    pattern = re.compile(rf"{re.escape(name['name'])}-(\d+){re.escape(name['time'])}")
    pages = account.pages("sagemaker", "list_training_jobs", NameContains=name["time"], MaxResults=100)
    listed = (each for page in pages for each in page["TrainingJobSummaries"])
    found = {int(match[1]): each for each in listed if (match := pattern.fullmatch(each["TrainingJobName"]))}
    return dict(sorted(found.items()))


def unfinished(account: Account, sweep: str) -> set[str]:
    """Raises AwsError."""
    return {
        str(each["TrainingJobName"])
        for each in summaries(account, sweep).values()
        if each["TrainingJobStatus"] in ("InProgress", "Stopping")
    }


def described(account: Account, sweep: str) -> dict[int, Training]:
    """Raises AwsError; UsageError if there is no such sweep."""
    found = {index: each["TrainingJobName"] for index, each in summaries(account, sweep).items()}
    if not found:
        where = f"SageMaker has no sweep {sweep} in {account.target.region}"
        raise UsageError(
            where, "`gpucluster jobs` lists the jobs; a sweep's name is that of its jobs without the index"
        )
    return {index: jobs.describe(account, name) for index, name in found.items()}


def element(index: int, job: Training) -> Element:
    """The last values are those that SageMaker has kept."""
    final = job.answer.get("FinalMetricDataList", ())
    metrics = {each["MetricName"]: {"last": each["Value"]} for each in final}
    reason = {"reason": job.doing(0)} if job.failed else {}
    values = json.loads(job.answer.get("Environment", {}).get(VALUES, "{}"))
    return Element(index, job.name, values, _KINDS.get(job.state, "failed"), {"metrics": metrics, **reason})


def expanded(account: Account, name: str) -> list[str]:
    """The jobs that a name means: itself, or those of a sweep. Raises AwsError; UsageError if there is neither."""
    try:
        return [jobs.describe(account, name).name]
    except UsageError:
        several = [str(each["TrainingJobName"]) for each in summaries(account, name).values()]
        if not several:
            raise
        return several
