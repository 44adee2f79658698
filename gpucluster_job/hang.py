"""`hang_timeout`: ends the job if no rank has printed a line, and no file was written, for so long.

Before, each rank's Python prints where it stands: faulthandler does so at SIGABRT, from C, even while the program waits
in a library. The job has failed and does not run again: a program whose ranks wait for each other would hang again.

The same happens when a rank ends because it has waited in vain for another one: the rank that did not come is the
cause, not the one that reports it. `ranks/rank.py` stays for a moment, so that the launcher does not end the others.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucluster_job import failures, ourselves
from gpucluster_job.failures import Failure
from gpucluster_job.hangs import flight, standing, watchdog
from gpucluster_job.hangs.missing import Missing
from gpucluster_job.hangs.standing import Frame
from gpucluster_job.hangs.watchdog import Watchdog
from gpucluster_job.log import say
from gpucluster_job.runner import Tick
from gpucluster_job.settings import Settings

ABORTED = 128 + signal.SIGABRT
TOGETHER_S = 5.0
"""By then the step that makes ranks print where they stand has started on every node. The first rank that ends makes
its launcher end the others, so all must print at the same moment."""
STACKS_S = TOGETHER_S + 10.0
"""Time for the ranks to print where they stand."""
LONGEST = 200
_LABEL = re.compile(rb"\[([^ ]+) ([^]]+)\] (.*)", re.DOTALL)
_STACK = re.compile(rb"Current thread 0x[0-9a-f]+( \[.*\])? \(most recent call first\):$")
"""Python 3.14 adds the thread's name (python/cpython#132016)."""
_FRAME = re.compile(rb' +File "(.*)", line ([0-9]+) in (.*)$')
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/|^<")
_ENDED = re.compile(rb"\[([^ ]+) [^]]+\] exited with code \d+: (.*)", re.DOTALL)


class Hang:
    def __init__(
        self, settings: Settings, on_each_node: Callable[[list[str]], Any], end_ranks: Callable[[], None]
    ) -> None:
        """on_each_node: starts a command on each node of the job."""
        self._settings, self._on_each_node, self._end_ranks = settings, on_each_node, end_ranks
        self._limit_s = settings.hang_timeout_s
        self._heard_at, self._last = 0.0, b""
        self._stacks, self._watchdog = Stacks(), Watchdog()
        self._said = self._flights = ""
        self._gave_up: list[str] = []
        """The labels of ranks that have ended because they had waited in vain."""
        self.asked_at = 0.0
        """When a rank had waited in vain, and the others were asked where they stand."""

    def watch(self) -> Tick | None:
        self._heard_at = time.time()
        return self._look if self._limit_s else None

    def record(self) -> dict[str, str]:
        """The variables with which ranks write down their last collectives, and where they stand at SIGABRT."""
        if self._settings.world_size < 2:
            return {}
        self._flights = str(self._settings.folder / "flights" / f"run-{time.time_ns()}")
        with suppress(OSError):  # such as a full /home
            os.makedirs(self._flights)
        return {"PYTHONFAULTHANDLER": "1", **flight.variables(self._flights)}

    def hear(self, line: bytes) -> None:
        """A line of a rank, with its label."""
        if watchdog.MARK in line:
            self._watchdog.hear(line)
        if self._said or self.asked_at:
            self._stacks.hear(line)
        else:
            self._heard_at, self._last = time.time(), line
        if failures.ENDED in line[:LONGEST] and (match := _ENDED.match(line)):
            self._hear_end(match[1].decode(errors="replace"), match[2].decode(errors="replace"))

    def _hear_end(self, label: str, why: str) -> None:
        if not failures.waited(why) or "MIN_NODES" in os.environ:
            return
        self._gave_up.append(label)
        if not (self._said or self.asked_at):
            self.asked_at = time.time()
            say("[launcher] a rank has waited in vain: the others print where they stand")
            self._on_each_node(ourselves.words("stacks", str(time.time() + TOGETHER_S)))

    @property
    def reason(self) -> str:
        """Empty unless the job hung."""
        return "; ".join(filter(None, (self._said, self.blame(), self._stacks.words()))) if self._said else ""

    def missing(self) -> Missing | None:
        """The ranks that did not come, if that can be told. How far they had come says more than where they stand: two
        ranks may wait in different collectives."""
        recorded = flight.missing(self._flights) if self._flights else None
        return recorded or self._watchdog.missing() or standing.missing(self._stacks.frames, self._gave_up)

    def own(self, failed: list[Failure]) -> list[Failure]:
        """Without the ranks that ended because they were asked where they stand."""
        asked = [each for each in failed if self.asked_at and each.code == ABORTED and each.at > self.asked_at]
        return [each for each in failed if each not in asked] or failed

    def blame(self) -> str:
        """Which ranks did not come; empty if that cannot be told."""
        found = self.missing()
        if not found:
            return ""
        missing, waited = who(found.labels), who(found.waited)
        at = self._stacks.words(found.labels) if not self._said else ""
        stood = f"; {at}" if at else ""
        return f"{missing} did not come to {found.what}, in which {waited} waited{stood}"

    def result(self) -> dict[str, list[object]]:
        """For result.json. Removes the folder of the ranks' collectives if none has written any."""
        if self._flights:
            with suppress(OSError):
                os.removedirs(self._flights)
        found = self.missing() if self._said or self.asked_at else None
        labels = sorted(found.labels, key=lambda each: each.zfill(9)) if found else []
        return {"missing_ranks": [int(each) if each.isdigit() else each for each in labels]} if labels else {}

    def _look(self) -> float | None:
        if self._said:
            self._end_ranks()
            return None
        left = self._heard_at + self._limit_s - time.time()
        if left <= 0:
            left = newest_file(self._folders(), time.time()) + self._limit_s - time.time()
        if left > 0:
            return left
        self._said = f"no rank has printed a line for {duration(self._limit_s)} (hang_timeout); {self._last_words()}"
        say(f"[launcher] {self._said}; ending the ranks, which first print where they stand")
        self._on_each_node(ourselves.words("stacks", str(time.time() + TOGETHER_S)))
        return STACKS_S

    def _folders(self) -> list[str]:
        return [str(self._settings.folder / "code"), *filter(None, [os.environ.get("GPUCLUSTER_STATE")])]

    def _last_words(self) -> str:
        match = _LABEL.match(self._last)
        if not match:
            return "none has printed anything"
        label, node, words = (each.decode(errors="replace") for each in match.groups())
        at = time.strftime("%H:%M:%S UTC", time.gmtime(self._heard_at))
        return f"{who([label])} on {node} was the last, at {at}: {words.strip()[:LONGEST]}"


class Stacks:
    """Reads the dumps of faulthandler. A dump has all threads of a program; the current one is that which got the
    signal, normally the main thread."""

    def __init__(self) -> None:
        self.frames: dict[str, list[Frame]] = {}
        """By label, the innermost first."""
        self._inside: set[str] = set()

    def hear(self, line: bytes) -> None:
        match = _LABEL.match(line)
        if not match:
            return
        label, text = match[1].decode(errors="replace"), match[3]
        if _STACK.match(text):
            self._inside.add(label)
            self.frames[label] = []
        elif label in self._inside and (frame := _FRAME.match(text)):
            file, number, function = (each.decode(errors="replace") for each in frame.groups())
            self.frames[label].append((file, number, function))
        else:
            self._inside.discard(label)

    def words(self, labels: Iterable[str] | None = None) -> str:
        """Each place once, with its ranks. Empty if no rank has said where it stands. `labels`: only of these."""
        places: dict[str, list[str]] = {}
        for label, frames in self.frames.items():
            if frames and (labels is None or label in labels):
                places.setdefault(place(frames), []).append(label)
        return "; ".join(f"{who(labels)} in {where}" for where, labels in places.items())


def place(frames: list[Frame]) -> str:
    """The program's own line, and the function of a library that it waits in."""
    file, number, function = next((each for each in frames if not _LIBRARY.search(each[0])), frames[0])
    own = f"{function} ({Path(file).name}:{number})"
    return own if frames[0] == (file, number, function) else f"{frames[0][2]}, called from {own}"


def who(labels: Iterable[str]) -> str:
    """`ranks 0, 1`; a server's or a scheduler's label is its name."""
    found = sorted(labels, key=lambda each: (not each.isdigit(), each.zfill(9)))
    ranks = [each for each in found if each.isdigit()]
    named = [f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}"] if ranks else []
    return ", ".join([*named, *(each for each in found if not each.isdigit())])


def newest_file(folders: Iterable[str], now: float) -> float:
    """When a file below these folders was last written; 0 if there is none. A file server's clock may be ahead."""
    newest = 0.0
    for folder, _, names in (each for root in folders for each in os.walk(root)):
        for name in names:
            try:
                newest = max(newest, os.lstat(os.path.join(folder, name)).st_mtime)
            except OSError:
                continue
    return min(newest, now)


def duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    parts = ((hours, "h"), (rest // 60, "min"), (rest % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
