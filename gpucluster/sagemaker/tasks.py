"""The runs of a task on SageMaker: its training jobs. Their tags say of which task they are (docs/design.md)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gpucluster.errors import UsageError

TAG = "gpucluster:"
ENDED = ("Completed", "Failed", "Stopped", "Deleting")
"""TrainingJobStatus of a job that writes no state any more."""


class Run(NamedTuple):
    job: str
    """The training job's name."""
    status: str
    key: str
    """The hash of what decides whether a run is another run (gpucluster/job/sameness.py)."""
    state: str = ""
    """Where in S3 its state lies: CheckpointConfig.S3Uri, without the slash at its end."""

    @property
    def succeeded(self) -> bool:
        return self.status == "Completed"

    @property
    def ended(self) -> bool:
        return self.status in ENDED


def stem(name: str) -> str:
    """What a training job's name can have of a task's: letters, digits and single hyphens."""
    return re.sub("[^A-Za-z0-9]+", "-", name).strip("-") or "job"


def newest(sagemaker: Any, project: str, name: str) -> Run | None:
    """`sagemaker`: a client of boto3. Raises its errors."""
    pages = sagemaker.get_paginator("list_training_jobs").paginate(
        NameContains=stem(name), SortBy="CreationTime", SortOrder="Descending", PaginationConfig={"PageSize": 100}
    )
    for page in pages:
        for each in page["TrainingJobSummaries"]:
            if not re.fullmatch(rf"{re.escape(stem(name))}-\d{{8}}-\d{{6}}", each["TrainingJobName"]):
                continue
            tags = tags_of(sagemaker, each["TrainingJobArn"])
            if (tags.get(f"{TAG}project"), tags.get(f"{TAG}name")) == (project, name):
                return _run(sagemaker, each["TrainingJobName"], tags.get(f"{TAG}run", ""))
    return None


def _run(sagemaker: Any, job: str, key: str) -> Run:
    found = sagemaker.describe_training_job(TrainingJobName=job)
    state = str(found.get("CheckpointConfig", {}).get("S3Uri", "")).rstrip("/")
    return Run(job, found["TrainingJobStatus"], key, state)


def tags_of(sagemaker: Any, arn: str) -> dict[str, str]:
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
    return {each["Key"]: each["Value"] for page in pages for each in page["Tags"]}


def refuse_unfinished(label: str, last: Run | None) -> None:
    """Raises UsageError, as on the cluster (gpucluster_job/task/check.py)."""
    if last and not last.ended:
        raise UsageError(
            f"job {last.job} of the task {label} has not ended, and two runs at once would write to one state",
            f"`gpucluster cancel {last.job}` cancels it, and --name makes this job a run of another task",
        )
