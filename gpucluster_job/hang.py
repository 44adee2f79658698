"""`hang_timeout`: ends the job if no rank has printed a line, and no file was written, for so long.

Before, each rank's Python prints where it stands: faulthandler does so at SIGABRT, from C, even while the program waits
in a library. The job has failed and does not run again: a program whose ranks wait for each other would hang again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Tuple

from gpucluster_job import ourselves
from gpucluster_job.log import say
from gpucluster_job.runner import Tick
from gpucluster_job.settings import Settings

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
Frame = Tuple[str, str, str]
"""File, line, function."""


class Hang:
    def __init__(
        self, settings: Settings, on_each_node: Callable[[list[str]], Any], end_ranks: Callable[[], None]
    ) -> None:
        """on_each_node: starts a command on each node of the job."""
        self._settings, self._on_each_node, self._end_ranks = settings, on_each_node, end_ranks
        self._limit_s = settings.hang_timeout_s
        self._heard_at, self._last = 0.0, b""
        self._stacks = Stacks()
        self._said = ""

    def watch(self) -> Tick | None:
        self._heard_at = time.time()
        return self._look if self._limit_s else None

    def hear(self, line: bytes) -> None:
        """A line of a rank, with its label."""
        if self._said:
            self._stacks.hear(line)
        else:
            self._heard_at, self._last = time.time(), line

    @property
    def reason(self) -> str:
        """Empty unless the job hung."""
        return "; ".join(filter(None, (self._said, self._stacks.words()))) if self._said else ""

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
        self._frames: dict[str, list[Frame]] = {}
        self._inside: set[str] = set()

    def hear(self, line: bytes) -> None:
        match = _LABEL.match(line)
        if not match:
            return
        label, text = match[1].decode(errors="replace"), match[3]
        if _STACK.match(text):
            self._inside.add(label)
            self._frames[label] = []
        elif label in self._inside and (frame := _FRAME.match(text)):
            file, number, function = (each.decode(errors="replace") for each in frame.groups())
            self._frames[label].append((file, number, function))
        else:
            self._inside.discard(label)

    def words(self) -> str:
        """Each place once, with its ranks. Empty if no rank has said where it stands."""
        places: dict[str, list[str]] = {}
        for label, frames in self._frames.items():
            if frames:
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
