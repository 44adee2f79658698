"""The progress of a deployment, for people: what the CDK command line, CloudFormation and the booting head node
report."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from gpucluster.cluster import cdk, stack

Tell = Callable[[str], None]
Role = Literal["head", "image"]
WHO: Mapping[Role, str] = {"head": "the head node", "image": "the builder"}
READY: Mapping[Role, str] = {"head": "that Slurm is up", "image": "that everything is installed"}

WAIT_CONDITION = "AWS::CloudFormation::WaitCondition"
_HEAD_SAID = re.compile(r"received failed message: '(.*)' for uniqueId", re.DOTALL)
_BOOT_STEP = re.compile(r"step=(?:\S+ status=\S|user-data: ).*")
# Lines that the verbs print themselves at the end, or that are useless to users.
_QUIET = re.compile(
    r"^\s*$|(start|success): (Building|Publishing|Built|Published) |^(Outputs|Stack ARN):|^\S+\.\w+ = |^arn:|Total time"
)


def describe(failure: stack.StackEvent, role: Role = "head") -> str:
    """The head node's own message if its boot failed."""
    said = _HEAD_SAID.search(failure.reason)
    if said:
        return f"{WHO[role]} did not boot: {said[1]}"
    if failure.type == WAIT_CONDITION:
        return f"{WHO[role]} did not report that it is ready: {failure.reason}"
    return f"{failure.resource} ({failure.type}): {failure.reason}"


def as_cdk_tells(event: stack.StackEvent) -> cdk.Event:
    return cdk.Event(event.status, event.type, f"{event.resource} ({event.reason})")


class Progress:
    """Turns the CDK command line's output into progress for people: finished resources, and what it waits for."""

    def __init__(self, tell: Tell, console: Callable[[], str], role: Role = "head") -> None:
        self.said: list[str] = []
        self.began = False
        """Whether CloudFormation began to change the stack."""
        self._role = role
        self._tell = tell
        self._console = console
        self._waits_for_head = False
        self._sums_up = False  # the following lines were already shown, and the error repeats them
        self._steps_told = len(self._steps())  # in an update, the output of an earlier boot

    def _steps(self) -> list[str]:
        return _BOOT_STEP.findall(self._console())

    def heard(self, line: str | None) -> None:
        """None means: nothing new for a while."""
        event = cdk.parse_event(line) if line is not None else None
        self.began = self.began or event is not None
        if line is None or event:
            return None if self._sums_up else self.happened(event)
        self.said.append(line)
        self._sums_up = self._sums_up or line.startswith("Failed resources:")
        if not self._sums_up and not _QUIET.search(line):
            self._tell(line.strip())

    def happened(self, event: cdk.Event | None) -> None:
        """None: nothing for a while."""
        if event is None:
            return self._look_at_head() if self._waits_for_head else None
        if event.type == WAIT_CONDITION:
            if event.status == "CREATE_IN_PROGRESS":
                self._waits_for_head = True
                return self._tell(f"waiting for {WHO[self._role]} to boot and to report {READY[self._role]}")
            self._look_at_head()
            self._waits_for_head = False
        failed = "FAILED" in event.status and stack.CANCELLED not in event.resource.lower()
        if failed or not ("_IN_PROGRESS" in event.status or "_CLEANUP" in event.status):
            self._tell(f"{event.status:<20} {event.type} {event.resource if failed else event.construct}")

    def _look_at_head(self) -> None:
        steps = self._steps()
        for number, step in enumerate(steps[self._steps_told :], self._steps_told + 1):
            if "status=started" not in step or number == len(steps):  # already completed: one line is enough
                self._tell(f"{WHO[self._role].removeprefix('the ')}: {step.strip()}")
        self._steps_told = max(self._steps_told, len(steps))


def with_heartbeat(lines: Iterator[str], interval_s: float) -> Iterator[str | None]:
    """Yields lines as they come, and None whenever none has come for a while."""
    received: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ended = threading.Event()

    def read() -> None:
        for line in lines:
            received.put(line)
        ended.set()
        received.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = received.get(timeout=interval_s)
        except queue.Empty:
            yield None
            continue
        if line is None and ended.is_set():
            return
        yield line
