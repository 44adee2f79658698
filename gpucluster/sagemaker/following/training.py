"""A training job as DescribeTrainingJob answers, and its states in words. Pure.

AWS says that the texts of StatusMessage may change, and that programs should not depend on them (botocore's model,
SecondaryStatusTransition): they are shown, and only `why` looks for what it knows in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from gpucluster.addresses import S3Uri
from gpucluster.errors import JobFailedError
from gpucluster.head import slurm

OURS = re.compile(r"(?P<name>[A-Za-z0-9](?:-*[A-Za-z0-9])*)-\d{8}-\d{6}")
"""The names that `submit` gives: docs/design.md."""
STOP_S = 120
"""What SageMaker leaves a job between SIGTERM and SIGKILL: botocore's documentation of StopTrainingJob."""
_WAITS = ("Starting", "Pending", "Interrupted", "Restarting")
_STATES = {"Completed": "COMPLETED", "Failed": "FAILED", "Stopping": "COMPLETING", "Stopped": "CANCELLED"}
"""TrainingJobStatus -> Slurm's word, so that one list has both."""
TIMEOUTS = ("MaxRuntimeExceeded", "MaxWaitTimeExceeded")
_DOES = {
    "Starting": "starts its instances",
    "Pending": "waits for capacity",
    "Downloading": "downloads its input",
    "Training": "trains",
    "Interrupted": "waits for spot instances after an interruption",
    "Restarting": "starts again after an error of SageMaker's",
    "Updating": "is being updated",
    "Uploading": "uploads its output",
    "Stopping": f"stops: its ranks have {STOP_S} s",
}
"""SecondaryStatus -> what the job does; those of botocore's model, documentation of DescribeTrainingJob."""


@dataclass(frozen=True)
class Step:
    status: str
    """A SecondaryStatus."""
    begun: float
    ended: float | None
    message: str

    def words(self, now: float) -> str:
        seconds = f"{max(0, (self.ended or now) - self.begun):.0f} s"
        return f"{_DOES.get(self.status, self.status)}, {seconds}"


@dataclass(frozen=True)
class Training:
    """Times are Unix seconds."""

    answer: Mapping[str, Any]

    @cached_property
    def name(self) -> str:
        return str(self.answer["TrainingJobName"])

    @property
    def title(self) -> str:
        """The name in job.yaml; of another program's job, all of it."""
        found = OURS.fullmatch(self.name)
        return found["name"] if found else self.name

    @property
    def status(self) -> str:
        return str(self.answer["TrainingJobStatus"])

    @property
    def secondary(self) -> str:
        return str(self.answer.get("SecondaryStatus", ""))

    @property
    def failure(self) -> str:
        return str(self.answer.get("FailureReason", ""))

    @property
    def ended(self) -> bool:
        return self.status not in ("InProgress", "Stopping")

    @property
    def waits(self) -> bool:
        """For its instances: nothing is billed yet."""
        return self.status == "InProgress" and self.secondary in _WAITS

    @property
    def failed(self) -> bool:
        return self.status == "Failed" or self.secondary in TIMEOUTS

    @property
    def state(self) -> str:
        """In Slurm's words."""
        if self.status == "InProgress":
            return "PENDING" if self.waits else "RUNNING"
        return "TIMEOUT" if self.secondary in TIMEOUTS else _STATES.get(self.status, self.status.upper())

    @property
    def created(self) -> float:
        return self._time("CreationTime") or 0.0

    @property
    def started(self) -> float | None:
        """When it got its instances."""
        return self._time("TrainingStartTime")

    @property
    def finished(self) -> float | None:
        return self._time("TrainingEndTime")

    def elapsed(self, now: float) -> float | None:
        """Seconds on its instances; None if it has not got them."""
        return None if self.started is None else (self.finished or now) - self.started

    @property
    def instances(self) -> int:
        machines = self.answer.get("ResourceConfig", {})
        groups = sum(group["InstanceCount"] for group in machines.get("InstanceGroups", ()))
        return int(machines.get("InstanceCount") or groups)

    @property
    def instance_type(self) -> str:
        return str(self.answer.get("ResourceConfig", {}).get("InstanceType", ""))

    @property
    def spot(self) -> bool:
        return bool(self.answer.get("EnableManagedSpotTraining"))

    @property
    def billable_s(self) -> int | None:
        """The time of each instance. SageMaker says it when the job has ended."""
        found = self.answer.get("BillableTimeInSeconds")
        return None if found is None else int(found)

    @property
    def training_s(self) -> int | None:
        found = self.answer.get("TrainingTimeInSeconds")
        return None if found is None else int(found)

    @property
    def place(self) -> S3Uri:
        """Where the files of this job lie."""
        return S3Uri.of(f"{self.answer['OutputDataConfig']['S3OutputPath']}/{self.name}")

    @property
    def checkpoints(self) -> str:
        """Empty if it keeps none."""
        return str(self.answer.get("CheckpointConfig", {}).get("S3Uri", ""))

    @property
    def tensorboard(self) -> str:
        """Empty if SageMaker copies no event files."""
        return str(self.answer.get("TensorBoardOutputConfig", {}).get("S3OutputPath", ""))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(map(_step, self.answer.get("SecondaryStatusTransitions", ())))

    @property
    def does(self) -> str:
        return _DOES.get(self.secondary, self.secondary)

    @property
    def sentence(self) -> str:
        """How it ended."""
        reason = self.doing(0)
        if self.secondary in TIMEOUTS:
            return f"job {self.name} {reason}"
        said = f"job {self.name} {slurm.job_state(self.state).meaning}"
        return f"{said}: {reason}" if reason else said

    def check(self) -> None:
        """Raises JobFailedError unless it has completed."""
        if self.status != "Completed":
            raise JobFailedError(self.sentence, f"`gpucluster why {self.name}` says what is known of it")

    def doing(self, now: float) -> str:
        """What it does, with the seconds since it began; why it ended early; empty if it has completed."""
        if self.secondary == "MaxRuntimeExceeded":
            return f"reached its time limit of {self.answer['StoppingCondition']['MaxRuntimeInSeconds']} s"
        if self.secondary == "MaxWaitTimeExceeded":
            limit = self.answer["StoppingCondition"].get("MaxWaitTimeInSeconds")
            return f"waited and ran for {limit} s, its max_wait"
        if self.ended:
            return next(iter(self.failure.splitlines()), "")
        return f"{self.does}, {self.lasts(now):.0f} s" if self.steps else self.does

    def lasts(self, now: float) -> float:
        """For how many seconds it has had its state; 0 if it has ended."""
        same = [*_last_alike(self.steps)]
        return max(0.0, now - same[0].begun) if same and not self.ended else 0.0

    @property
    def message(self) -> str:
        """SageMaker's own words for what it does."""
        return self.steps[-1].message if self.steps else ""

    def _time(self, member: str) -> float | None:
        found = self.answer.get(member)
        return found.timestamp() if isinstance(found, datetime) else None


def _step(answer: Mapping[str, Any]) -> Step:
    ended = answer.get("EndTime")
    message = str(answer.get("StatusMessage", ""))
    return Step(str(answer["Status"]), answer["StartTime"].timestamp(), ended.timestamp() if ended else None, message)


def _last_alike(steps: tuple[Step, ...]) -> Iterator[Step]:
    """The steps at the end with the same status: SageMaker adds one whenever the message changes."""
    first = len(steps)
    while first and steps[first - 1].status == steps[-1].status:
        first -= 1
    return iter(steps[first:])


def clock(seconds: float | None) -> str:
    """As squeue prints times: 12:34, 1:02:03, 1-02:03:04."""
    if seconds is None:
        return ""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"
