"""The job's log, which is this process's output. Every line says where it comes from; ranks label their own lines."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Callable

_LAUNCHERS_LABEL = re.compile(rb"^\[(?:\d+,)?\d+\]<std(?:out|err)>: ?")
"""horovodrun puts its own label before each line, and so does the mpirun that it starts."""
_RANKS_LABEL = re.compile(rb"^\[(?:\d+|scheduler|chief|server-\d+) [^]]+\] ")


def say(line: str) -> None:
    write(f"{line}\n".encode(errors="replace"))


def write(data: bytes) -> None:
    """If the disk is full, lines of the log are lost and the job continues."""
    with suppress(OSError):
        while data:
            data = data[os.write(1, data) :]


class Lines:
    """Splits output into lines. A last line without a newline counts too."""

    def __init__(self, take: Callable[[list[bytes]], None]) -> None:
        self._take, self._rest = take, b""

    def __call__(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            lines, self._rest = [self._rest], b""
        if lines:
            self._take(lines)


class LauncherOutput:
    """Passes on the output of the launcher and of all ranks. It remembers the launcher's own lines, which may say why
    it ended."""

    def __init__(self) -> None:
        self.take = Lines(self._print)
        self.words = LauncherWords()

    def _print(self, lines: list[bytes]) -> None:
        shown = []
        for line in (_LAUNCHERS_LABEL.sub(b"", each) for each in lines):
            if not _RANKS_LABEL.match(line):
                self.words.hear(line.decode(errors="replace"))
                line = b"[launcher] " + line
            shown.append(line + b"\n")
        write(b"".join(shown))


class LauncherWords:
    """The launcher's last informative line. mpirun and torchrun end their output with a block of fields, which this
    joins."""

    _NODE_FAILURE = re.compile(r"srun: error: Node failure on ([^ ]+)")

    def __init__(self) -> None:
        self.last = self._process = self._rank = self._host = ""
        self.lost_node: str | None = None

    def hear(self, line: str) -> None:
        line = line.strip()
        if not any(letter.isalnum() for letter in line):
            return
        name, _, value = line.partition(":")
        name, value = name.strip(), value.strip()
        self.last = line
        if name == "Process name":
            self.last = self._process = f"process {value}"
        elif name == "Exit code" and self._process:
            self.last = f"{self._process} exited with code {value}"
        elif name == "host":
            self._host = value
        elif name == "rank":
            self._rank = f"rank {value}"
        elif name == "traceback" and self._rank:
            self.last = f"{self._rank} on {self._host}: {value}"
        lost = self._NODE_FAILURE.match(line)
        if lost and not self.lost_node:
            self.lost_node = lost[1]
