"""What the hosts print: to CloudWatch Logs line by line, and the metrics that the job's expressions find in it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

from localcloud.training.jobs import Job, now

GROUP = "/aws/sagemaker/TrainingJobs"
_LONGEST = 256 * 1024 - 26  # bytes of an event, CloudWatch Logs quotas
_MOST = 1000  # events of a call here; a call may have 10,000, and 1 MiB


class Lines:
    """The complete lines of a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, content: bytes, *, last: bool = False) -> list[str]:
        *whole, self._rest = (self._rest + content).split(b"\n")
        if last and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        return [line.rstrip(b"\r").decode(errors="replace") for line in whole]


class Stream:
    """A host's log. A role that may not write logs leaves the job without them, as on AWS."""

    def __init__(self, client: Any, job: Job, host: str) -> None:
        self._client, self._open = client, False
        self.name = f"{job.name}/{host}-{int(time.time())}"

    def write(self, lines: Sequence[str]) -> None:
        for start in range(0, len(lines), _MOST):
            moment = int(time.time() * 1000)
            events = [
                {"timestamp": moment, "message": line.encode()[:_LONGEST].decode(errors="ignore")}
                for line in lines[start : start + _MOST]
                if line
            ]
            with suppress(ClientError):
                self._create()
                if events:
                    self._client.put_log_events(logGroupName=GROUP, logStreamName=self.name, logEvents=events)

    def _create(self) -> None:
        if self._open:
            return
        with suppress(self._client.exceptions.ResourceAlreadyExistsException):
            self._client.create_log_group(logGroupName=GROUP)
        self._client.create_log_stream(logGroupName=GROUP, logStreamName=self.name)
        self._open = True


class Metrics:
    """From the first group of each expression on each line of every host."""

    def __init__(self, client: Any, job: Job) -> None:
        self._client, self._job = client, job
        self._definitions = [
            (str(each["Name"]), re.compile(each["Regex"]))
            for each in job.request["AlgorithmSpecification"].get("MetricDefinitions") or ()
        ]

    def take(self, lines: Sequence[str]) -> None:
        moment = now()
        found = [
            {"MetricName": name, "Value": value, "Timestamp": moment}
            for line in lines
            for name, value in values(self._definitions, line)
        ]
        for each in found:
            self._job.metrics = self._job.metrics | {str(each["MetricName"]): each}
        own: Mapping[str, Any] = {"Dimensions": [{"Name": "TrainingJobName", "Value": self._job.name}]}
        with suppress(ClientError):
            for start in range(0, len(found), _MOST):
                sent = [{**each, **own} for each in found[start : start + _MOST]]
                self._client.put_metric_data(Namespace=GROUP, MetricData=sent)


def values(definitions: Sequence[tuple[str, re.Pattern[str]]], line: str) -> Iterator[tuple[str, float]]:
    for name, expression in definitions:
        match = expression.search(line)
        with suppress(ValueError, TypeError):
            if match and expression.groups:
                yield name, float(match[1])
