"""The log of a training job: CloudWatch's streams, one of each host, merged by time.

A line of a rank has its rank and host already, because gpucluster_job prints them. Any other line gets its host.
"""

from __future__ import annotations

import heapq
import random
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpucluster.errors import AwsError, UsageError
from gpucluster.following.logs import FOLDED, Selection, Tell
from gpucluster.following.patience import Patience
from gpucluster.sagemaker.following import jobs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Training

GROUP = "/aws/sagemaker/TrainingJobs"
POLL_S, JITTER_S = 10.0, 3.0
"""SageMaker throttles a caller that describes jobs more often."""
_NO_GROUP = "ResourceNotFoundException"
"""DescribeLogStreams, before the first job of the account prints: its model in botocore."""
OF_RANK = re.compile(r"\[(?P<label>[^ \]]+) (?P<host>algo-\d+)\] ")
_OF_HOST = re.compile(r"\[(?P<label>launcher|sagemaker)\] ")
Pause = Callable[[float], None]


class Line(NamedTuple):
    at_ms: int
    host: str
    text: str

    def labelled(self) -> str:
        if OF_RANK.match(self.text):
            return self.text
        if found := _OF_HOST.match(self.text):
            return f"[{found['label']} {self.host}] {self.text[found.end() :]}"
        return f"[{self.host}] {self.text}"


class Choice:
    """Which lines a `Selection` chooses. Raises UsageError for what SageMaker's log has not."""

    def __init__(self, asked: Selection, now: float) -> None:
        if asked.run is not None:
            raise UsageError("--run: a training job has one log for all its runs", "--since chooses by time")
        self.since_ms, self.until_ms = (
            None if each is None else round((now + each if each < 0 else each) * 1000)
            for each in (asked.since, asked.until)
        )
        self._label, self._host = None if asked.rank is None else str(asked.rank), asked.node
        try:
            self._grep = re.compile(asked.grep) if asked.grep else None
        except re.error as error:
            raise UsageError(f"--grep {asked.grep}: {error}", "give an expression such as 'loss|accuracy'") from None

    def has(self, line: str) -> bool:
        found = OF_RANK.match(line)
        if self._label is not None and not (found and found["label"] == self._label):
            return False
        if self._host and not re.match(rf"\[([^ \]]+ )?{re.escape(self._host)}\] ", line):
            return False
        return not self._grep or self._grep.search(line) is not None


class Streams:
    """Each line once, however often it is read."""

    def __init__(self, account: Account, name: str, choice: Choice) -> None:
        self._account, self._name, self._choice = account, name, choice
        self._tokens, self._kept = dict[str, str](), list[Line]()

    def all(self) -> Iterator[Line]:
        """Reads pages only when they are needed. Raises AwsError."""
        return heapq.merge(*(self._of(stream) for stream in self._known()), key=lambda line: line.at_ms)

    def new(self) -> list[Line]:
        """What the hosts have printed since the last call. Raises AwsError, and the next call has these lines too."""
        for stream in self._known():
            for line in self._of(stream):
                self._kept.append(line)
        found, self._kept = sorted(self._kept, key=lambda line: line.at_ms), []
        return found

    def _known(self) -> list[str]:
        asked = {"logGroupName": GROUP, "logStreamNamePrefix": f"{self._name}/"}
        try:
            pages = list(self._account.pages("logs", "describe_log_streams", **asked))
        except AwsError as error:
            if _NO_GROUP in error.message:
                return []
            raise
        return [each["logStreamName"] for page in pages for each in page["logStreams"]]

    def _of(self, stream: str) -> Iterator[Line]:
        """Pages may be empty before the end, which is where the same token comes back (botocore's documentation of
        GetLogEvents)."""
        host = re.sub(r"-\d+$", "", stream.removeprefix(f"{self._name}/"))
        times = {"startTime": self._choice.since_ms, "endTime": self._choice.until_ms}
        asked: dict[str, Any] = {"logGroupName": GROUP, "logStreamName": stream, "startFromHead": True}
        asked |= {key: value for key, value in times.items() if value is not None}
        while True:
            token = self._tokens.get(stream)
            page = self._account.call("logs", "get_log_events", **asked, **({"nextToken": token} if token else {}))
            yield from (Line(each["timestamp"], host, each["message"].rstrip("\n")) for each in page["events"])
            self._tokens[stream] = page["nextForwardToken"]
            if page["nextForwardToken"] == token:
                return


def lines(account: Account, name: str, selection: Selection = FOLDED) -> Iterator[str]:
    """Raises UsageError if there is no such job, or if it has printed nothing."""
    choice = Choice(selection, time.time())
    job = jobs.describe(account, name)
    streams = Streams(account, job.name, choice)
    chosen = (line for each in streams.all() if choice.has(line := each.labelled()))
    if selection.tail is None:
        return chosen
    return iter(deque(chosen, selection.tail))


def follow(
    account: Account, name: str, tell: Tell, selection: Selection = FOLDED, pause: Pause = time.sleep
) -> Iterator[str]:
    """Its lines until it ends, and what it does meanwhile by `tell`. Outlasts errors of AWS."""
    choice, patience = Choice(selection, time.time()), Patience(name, tell, pause, "AWS")
    streams, ending, doing = Streams(account, name, choice), False, ""
    skipped: deque[str] | None = deque(maxlen=selection.tail) if selection.tail is not None else None
    while True:
        job = patience.ask(lambda: jobs.describe(account, name))
        doing = told(job, doing, tell)
        found = (line for each in patience.ask(streams.new) if choice.has(line := each.labelled()))
        if skipped is None:
            yield from found
        else:  # --tail: only of what was there when it began
            skipped.extend(found)
            yield from skipped
            skipped = None
        if ending:
            return
        ending = job.ended  # the last lines come late: one more look
        pause(pause_s())


def pause_s() -> float:
    """Between two looks at a job."""
    return POLL_S + random.uniform(0, JITTER_S)


def told(job: Training, before: str, tell: Tell) -> str:
    """Tells what the job does when that changes. Returns it."""
    if job.secondary != before and not job.ended:
        tell(f"job {job.name} {job.does}")
    return job.secondary
