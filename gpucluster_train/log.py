"""`log(step=12, loss=0.5)`: values of the running job, for `gpucluster metrics`, result.json and Prometheus.

Each rank that calls it writes a file of its own in the job's folder, which gpucluster_job/metrics/ reads. The lowest
rank's values of a name count: call it in one rank, or in all. Outside a job it does nothing.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import threading
import time
from collections import deque
from typing import Any

FOLDER = "GPUCLUSTER_METRICS"
EVERY_S = 1.0
OTHERS_EVERY_S = 20.0
"""Rank 0 sends its lines soon. If 512 ranks did, the file server would have 512 writes a second."""
ALL_OF_OTHERS = 5_000
"""All lines of rank 0 are written. Of each other rank so many with the same names, then of as many again every second
one, and so on: mostly rank 0's values count, and 512 ranks would write gigabytes a day into the job's folder."""
MOST_KINDS = 1_000
MOST_LINES = 50_000
"""That wait while the file server does not answer. The oldest are lost."""
AT_EXIT_S = 5.0
"""How long the end of the program waits for the file server."""
LONGEST = 2**16 - 1
"""Bytes of a line; a longer one would not be read."""


def log(step: int | None = None, **values: float) -> None:
    """Never fails and never waits for the file server. A value may be anything that float() takes, such as a tensor of
    one number: its GPU is then waited for. What is no number is left out, and a line on stderr says so once."""
    file = _file()
    numbers = {name: number for name, number in ((each, _number(each, values[each])) for each in values) if number}
    if file and numbers:
        file.add(_step(step), {name: number[0] for name, number in numbers.items()})


def _number(name: str, value: Any) -> tuple[float | None] | None:
    """Empty if it is none. A value that is not finite is null in JSON."""
    try:
        number = float(value)
    except Exception as error:  # noqa: BLE001 - of any class: it must not end the training
        _warn(name, f"{name} must be a number, got {type(value).__name__}: {error}")
        return None
    return (number if math.isfinite(number) else None,)


def _step(step: Any) -> int | None:
    try:
        return None if step is None else int(step)
    except Exception as error:  # noqa: BLE001
        _warn("", f"step must be a whole number, got {type(step).__name__}: {error}")
        return None


_warned: set[str] = set()


def _warn(about: str, text: str) -> None:
    if about not in _warned:
        _warned.add(about)
        print(f"warning: gpucluster_train.log: {text}", file=sys.stderr)


class File:
    """A thread writes it: training must not wait for the job's folder, which is on the network."""

    def __init__(self, folder: str, rank: int) -> None:
        self._path, self._every_s = f"{folder}/{rank}.jsonl", OTHERS_EVERY_S if rank else EVERY_S
        self._thins = rank > 0
        self._seen: dict[tuple[str, ...], tuple[int, int, int]] = {}
        """Names -> how many lines with them were seen, were written with this stride, and the stride."""
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="metrics-log", daemon=True)
        self._starts = threading.Lock()
        self._begun = False

    def add(self, step: int | None, values: dict[str, float | None]) -> None:
        if self._thins and not self._counts(tuple(values)):
            return
        line = json.dumps({"time_s": time.time(), "step": step, "values": values}) + "\n"
        if len(line) > LONGEST:
            _warn(" long", f"{len(values)} values in one call are left out: at most {LONGEST} bytes are read")
            return
        self._lines.append(line)
        if not self._begun:
            self._begin()

    def _counts(self, names: tuple[str, ...]) -> bool:
        """Whether the next line with these names is written."""
        kind = names if names in self._seen or len(self._seen) < MOST_KINDS else ()
        seen, written, stride = self._seen.get(kind, (0, 0, 1))
        is_kept = seen % stride == 0
        written += is_kept
        self._seen[kind] = (seen + 1, 0, 2 * stride) if written == ALL_OF_OTHERS else (seen + 1, written, stride)
        return is_kept

    def _begin(self) -> None:
        with self._starts:
            if not self._begun:
                self._begun = True
                try:
                    self._thread.start()
                except RuntimeError as error:  # no thread is left for the user, or the interpreter ends
                    _warn(" thread", f"values are left out: {error}")
                else:
                    atexit.register(self.end)

    def _keep_writing(self) -> None:
        """The first line soon: it shows that the job works."""
        pause_s = EVERY_S
        while not self._ends.wait(pause_s):
            self._write()
            pause_s = self._every_s
        self._write()

    def end(self) -> None:
        self._ends.set()
        self._thread.join(AT_EXIT_S)

    def _write(self) -> None:
        """A full file system costs the lines, and not the training."""
        taken = []
        while self._lines:
            taken.append(self._lines.popleft())
        if not taken:
            return
        try:
            with open(self._path, "ab", buffering=0) as file:
                file.write("".join(taken).encode())
        except OSError as error:
            _warn(" file", f"{self._path}: {error.strerror}")


_files: dict[int, File | None] = {}


def _file() -> File | None:
    """This process's: a fork has no threads of its parent."""
    pid = os.getpid()
    if pid not in _files:
        folder, rank = os.environ.get(FOLDER), os.environ.get("RANK", "")
        _files[pid] = File(folder, int(rank)) if folder and rank.isdecimal() else None
    return _files[pid]
