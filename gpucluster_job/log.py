"""The job's log, which is this process's output. Every line says where it comes from; ranks label their own lines."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable

_LAUNCHERS_LABEL = re.compile(rb"^\[(?:\d+,)?\d+\]<std(?:out|err)>: ?")
"""horovodrun puts its own label before each line, and so does the mpirun that it starts."""
_RANKS_LABEL = re.compile(rb"^\[(?:\d+|scheduler|chief|server-\d+) [^]]+\] ")


LONGEST_BYTES = 2**20
"""A longer line is cut: its parts are lines of their own."""
LABEL_BYTES = 2**17
"""A rank's line may be longer than LONGEST_BYTES by a label and one piece of its output. Its parts have labels."""
EVERY_S = 2.0
"""How often new lines are sent to the file server."""
TIMES_S = 5.0
"""How far apart the times in log.times are, at least."""
_times: Times | None = None
_has_new_lines = False
"""No lock protects it: a signal's handler writes lines too, and would wait for ever for a lock of its own thread."""


def say(line: str) -> None:
    write(f"{line}\n".encode(errors="replace"))


def write(data: bytes) -> None:
    """If the disk is full, lines of the log are lost and the job continues."""
    global _has_new_lines
    rest = memoryview(data)
    with suppress(OSError):
        while rest:
            rest = rest[os.write(1, rest) :]
    _has_new_lines = True


def keep_sent() -> None:
    """Starts a thread that sends new lines to the file server soon. An NFS client keeps what a program writes until the
    file is closed or fsync is called (nfs(5): The sync mount option), or for the kernel's dirty_expire_centisecs, 30 s:
    `logs -f` on the head node would show lines that late, and a node that is lost would take them with it."""
    threading.Thread(target=_send, daemon=True).start()


def _send() -> None:
    global _has_new_lines
    while True:
        time.sleep(EVERY_S)
        if _has_new_lines:
            _has_new_lines = False
            try:
                os.fsync(1)
            except OSError as error:
                if error.errno == errno.EINVAL:
                    return  # the output is a pipe or a terminal
        if _times:
            _times.note(TIMES_S)


class Times:
    """log.times beside the log: a line for each few seconds in which the log grew, with the time, the size of the log
    at that time, and the number of the job's run. No line of the log has a time, and these are enough for
    `logs --since` and `--run` (gpucluster/following/log_lines.py). A job of a day has less than half a MB of them."""

    def __init__(self, file: Path, run: int) -> None:
        self._file, self._run, self._size, self._noted_s = file, run, -1, 0.0

    def note(self, apart_s: float = 0.0) -> None:
        """If the disk is full, times are lost and the job continues. Closing the file sends it to the file server."""
        now = time.time()
        with suppress(OSError):
            size = os.fstat(1).st_size
            if size == self._size or abs(now - self._noted_s) < apart_s:
                return
            with self._file.open("a", encoding="ascii") as file:
                file.write(f"{now:.1f} {size} {self._run}\n")
            self._size, self._noted_s = size, now


def keep_times(file: Path, run: int) -> Times:
    """The caller notes the last time, when the job has written its last line."""
    global _times
    _times = Times(file, run)
    _times.note()
    return _times


class Splitter:
    """Splits output into lines, in linear time and with bounded memory, whatever the pieces in which it comes."""

    def __init__(self, longest_bytes: int = LONGEST_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._is_cut = False

    @property
    def has_rest(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._size > 0

    def take(self, data: bytes) -> list[bytes]:
        """The lines that are complete now."""
        first, *others = data.split(b"\n")
        self._add(first)
        lines: list[bytes] = []
        if others:
            if self._size or not self._is_cut:  # the line's end may follow just where it was cut
                lines.append(self._join())
            self._is_cut = False
            lines += others[:-1]
            self._parts, self._size = [], 0
            self._add(others[-1])
        return lines + self.cut() if self._size > self._longest_bytes else lines

    def cut(self) -> list[bytes]:
        """The line that has not ended, if there is one, as if it had ended."""
        if not self._size:
            return []
        self._is_cut = True
        return [self._join()]

    def _add(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)

    def _join(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line


class Lines:
    """Splits output into lines. A last line without a newline counts too."""

    def __init__(self, take: Callable[[list[bytes]], None]) -> None:
        self._take, self._splitter = take, Splitter(LONGEST_BYTES + LABEL_BYTES)

    def __call__(self, data: bytes) -> None:
        lines = self._splitter.take(data) if data else self._splitter.cut()
        if lines:
            self._take(lines)


class Said(Lines):
    """Keeps all lines of the output, and calls `hear` with each."""

    def __init__(self, hear: Callable[[str], None] = lambda line: None) -> None:
        super().__init__(self._keep)
        self.lines: list[str] = []
        self._hear = hear

    def _keep(self, lines: list[bytes]) -> None:
        for line in (each.decode(errors="replace") for each in lines):
            self.lines.append(line)
            self._hear(line)


def reason(line: str) -> str:
    """What follows "error: "."""
    return line[len("error: ") :] if line.startswith("error: ") else line


class LauncherOutput:
    """Passes on the output of the launcher and of all ranks. It remembers the launcher's own lines, which may say why
    it ended."""

    def __init__(self, hear_rank: Callable[[bytes], None] = lambda line: None) -> None:
        """hear_rank: called with each line of a rank, with its label."""
        self.take = Lines(self._print)
        self.words = LauncherWords()
        self._hear_rank = hear_rank

    def _print(self, lines: list[bytes]) -> None:
        shown = []
        for line in (_LAUNCHERS_LABEL.sub(b"", each) for each in lines):
            if _RANKS_LABEL.match(line):
                self._hear_rank(line)
            else:
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
