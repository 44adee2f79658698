"""The record of a training job, and what DescribeTrainingJob and ListTrainingJobs show of it."""

from __future__ import annotations

import datetime
import threading
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]
FINISHED = ("Completed", "Failed", "Stopped")
LONGEST_REASON = 1024  # botocore's model of FailureReason
_SHOWN = (
    "HyperParameters", "AlgorithmSpecification", "RoleArn", "InputDataConfig", "OutputDataConfig", "ResourceConfig",
    "VpcConfig", "StoppingCondition", "CheckpointConfig", "TensorBoardOutputConfig", "Environment", "RetryStrategy",
    "DebugHookConfig", "ExperimentConfig", "ProfilerConfig", "RemoteDebugConfig", "InfraCheckConfig",
)  # fmt: skip
_SWITCHES = ("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption", "EnableManagedSpotTraining")


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass
class Job:
    """A job's thread writes it, calls of the API read it."""

    request: Record
    region: str
    arn: str
    tags: list[dict[str, str]] = field(default_factory=list)
    created: datetime.datetime = field(default_factory=now)
    changed: datetime.datetime = field(default_factory=now)
    began: datetime.datetime | None = None
    """When it began to be billed: at its first download."""
    ended: datetime.datetime | None = None
    status: str = "InProgress"
    transitions: list[Record] = field(default_factory=list)
    reason: str = ""
    metrics: dict[str, Record] = field(default_factory=dict)
    waited_s: float = 0.0
    """Between an interruption and the next download: not billed."""
    stop_asked: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        return str(self.request["TrainingJobName"])

    @property
    def spot(self) -> bool:
        return bool(self.request.get("EnableManagedSpotTraining"))

    @property
    def hosts(self) -> list[str]:
        count = int(self.request["ResourceConfig"].get("InstanceCount") or 1)
        return [f"algo-{number}" for number in range(1, count + 1)]

    @property
    def instance_type(self) -> str:
        return str(self.request["ResourceConfig"].get("InstanceType"))

    @property
    def output(self) -> str:
        """The folder of its archives."""
        return f"{str(self.request['OutputDataConfig']['S3OutputPath']).rstrip('/')}/{self.name}/output"

    @property
    def packs(self) -> bool:
        return str(self.request["OutputDataConfig"].get("CompressionType")) != "NONE"

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    @property
    def secondary(self) -> str:
        return str(self.transitions[-1]["Status"]) if self.transitions else "Starting"

    def move(self, status: str, message: str) -> None:
        """Into a secondary status; another message in the same one replaces the message."""
        self.changed = moment = now()
        last = self.transitions[-1] if self.transitions else None
        if last and last["Status"] == status:
            last["StatusMessage"] = message
            return
        if last:
            last["EndTime"] = moment
        self.transitions = [*self.transitions, {"Status": status, "StartTime": moment, "StatusMessage": message}]
        if status == "Downloading" and self.began is None:
            self.began = moment
        if status == "Downloading" and last and _interrupted(self.transitions):
            self.waited_s += _waited_s(self.transitions, moment)

    def stop(self) -> None:
        self.status, self.changed = "Stopping", now()
        self.stop_asked.set()

    def finish(self, status: str, secondary: str, message: str, reason: str = "") -> None:
        self.move(secondary, message)
        self.transitions[-1]["EndTime"] = self.ended = self.transitions[-1]["StartTime"]
        self.reason = reason[:LONGEST_REASON]
        self.status = status


def _interrupted(transitions: list[Record]) -> bool:
    return any(each["Status"] == "Interrupted" for each in transitions)


def _waited_s(transitions: list[Record], moment: datetime.datetime) -> float:
    """Since the last interruption."""
    last = next(each for each in reversed(transitions) if each["Status"] == "Interrupted")
    return float((moment - last["StartTime"]).total_seconds())


def described(job: Job) -> Record:
    shown = {key: job.request[key] for key in _SHOWN if job.request.get(key) is not None}
    shown |= {key: bool(job.request.get(key)) for key in _SWITCHES}
    shown |= {
        "TrainingJobName": job.name,
        "TrainingJobArn": job.arn,
        "TrainingJobStatus": job.status,
        "SecondaryStatus": job.secondary,
        "CreationTime": job.created,
        "LastModifiedTime": job.changed,
        "SecondaryStatusTransitions": job.transitions,
        "ModelArtifacts": {"S3ModelArtifacts": f"{job.output}/model{'.tar.gz' if job.packs else '/'}"},
        "ProfilingStatus": "Disabled",
    }
    if job.reason:
        shown["FailureReason"] = job.reason
    if job.metrics:
        shown["FinalMetricDataList"] = list(job.metrics.values())
    if job.began:
        shown |= {"TrainingStartTime": job.began} | _times(job)
    return shown


def _times(job: Job) -> Record:
    if not (job.began and job.ended):
        return {}
    whole = (job.ended - job.began).total_seconds()
    billed = {"BillableTimeInSeconds": max(1, round(whole - job.waited_s))}
    return {"TrainingEndTime": job.ended, "TrainingTimeInSeconds": max(1, round(whole))} | billed


def summary(job: Job) -> Record:
    shown = {
        "TrainingJobName": job.name,
        "TrainingJobArn": job.arn,
        "CreationTime": job.created,
        "LastModifiedTime": job.changed,
        "TrainingJobStatus": job.status,
        "SecondaryStatus": job.secondary,
    }
    return shown | ({"TrainingEndTime": job.ended} if job.ended else {})
