"""Finds in one line why a program ended, in the last lines that it printed."""

from __future__ import annotations

import re
import signal
from typing import Iterable

LONGEST = 1000
_TORCHS_LABEL = re.compile(r"^\[rank[0-9]+\]: ?")
_STACK = re.compile(r"frame #[0-9]+: |Exception raised from ")
_WATCHDOG = re.compile(r"Watchdog caught collective operation timeout: .*")
_FATAL = re.compile(r"Fatal Python error: .*")
"""The first line of a dump of faulthandler."""
_ABORTED = "Fatal Python error: Aborted"
"""C++ has ended the program, and has said why before."""
_WHAT = re.compile(r" *what\(\): +(.*)")
_NCCLS = re.compile(r".*\bNCCL error in: ")
_DETAIL = "Last error:"
"""The line before NCCL's own words, in the message of such an error (getNcclErrorDetailStr in torch's NCCLUtils)."""


_TRACEBACK = "Traceback (most recent call last):"
_IGNORED = re.compile(
    rb"Exception ignored |Error in (atexit\._run_exitfuncs|sys\.excepthook):|--- Logging error ---|Call stack:"
)
"""Python prints an error after these lines and continues: of a destructor, an exit function, a hook, a log record."""
_CHAINED = re.compile(
    rb"(During handling of the above exception, another exception occurred|"
    rb"The above exception was the direct cause of the following exception):"
)
_HANDLED = re.compile(r"\b(WARN|WARNING|ERROR|EXCEPTION|CRITICAL|FATAL)\b|Exception in thread |(future|task): <")
"""The line before the traceback of an error that need not end the program: a log record, the name of a thread or a
task. Records of INFO and DEBUG seldom have one, and often stand before the error that ended the program."""
_NOISE = re.compile(
    r"wandb: |Set the environment variable HYDRA_FULL_ERROR=|.*:[0-9]+: \w*Warning: |\[[WI][0-9]+|Arguments: |\s"
)
"""Lines that libraries print when a program ends, beside the error."""


class Ignored:
    """Finds the lines of errors that Python ignores."""

    def __init__(self) -> None:
        self._inside = self._follows = False

    def has(self, line: bytes) -> bool:
        """To be called with each line in turn."""
        if _IGNORED.match(line) or (self._follows and _CHAINED.match(line)):
            self._inside = True
        elif self._inside and line.strip() and not line[:1].isspace() and not line.startswith(_TRACEBACK.encode()):
            self._inside, self._follows = False, True  # the error's own line
            return True
        elif not self._inside:
            self._follows = self._follows and not line.strip()
        return self._inside


class _Reader:
    """The error's line of each kind, of the lines so far."""

    def __init__(self) -> None:
        self.last = self.noise = self.exception = self.handled = self.after = ""
        self._cause = self._before = self.detail = ""
        self._in_traceback = self._is_handled = False

    def read(self, line: str) -> None:
        cause = _WATCHDOG.search(line) or _WHAT.match(line)
        if cause:
            self.last = self.exception = self._cause = cause[cause.lastindex or 0]
        elif fatal := _FATAL.match(line):
            aborted = self._cause and line.startswith(_ABORTED)
            self.last = self.exception = self._cause if aborted else fatal[0]
        elif line.endswith(_TRACEBACK):
            chained = _CHAINED.match(self._before.encode(errors="replace"))
            self._is_handled = self._is_handled if chained else bool(_HANDLED.search(self._before))
            self._in_traceback = True
        elif line.strip() and not _STACK.match(line):
            self._read_text(line)
        self._before = line if line.strip() else self._before

    def _read_text(self, line: str) -> None:
        if self._before.strip() == _DETAIL and _NCCLS.match(self.exception):
            self.detail = f"; {line.strip()}"
        if self._in_traceback and not line[0].isspace():
            self._in_traceback = False
            if self._is_handled:
                self.handled, self.after = line, ""
            else:
                self.exception, self.detail = line, ""
            self.last = line
        elif _NOISE.match(line) or _CHAINED.match(line.encode(errors="replace")):
            self.noise = line
        elif not self._in_traceback:
            self.last = self.after = line


def last_words(lines: Iterable[str]) -> str:
    """The line of the error that ended the program. It is that of the last traceback, unless the program has only
    logged it: then it is the text after it, such as that of sys.exit. Without a traceback, the last line that is not
    blank.

    torch labels lines itself and prints stack frames after the message: the one after `what():`, or its watchdog's.
    faulthandler prints Python's stacks after the error.
    """
    reader, ignored = _Reader(), Ignored()
    for line in (_TORCHS_LABEL.sub("", each) for each in lines):
        if not ignored.has(line.encode(errors="replace")):
            reader.read(line)
    logged = reader.handled and (reader.after or reader.handled)
    words = (reader.exception + reader.detail) or logged or reader.last or reader.noise
    return words.replace("\t", " ")[:LONGEST]


def reason(code: int, lines: Iterable[str], *, short: bool = False, limit: str = "") -> str:
    """`code` as a shell gives it: 128 plus the signal's number for a program, or its own child, that was killed.
    `short`: the kernel has killed a process of this node because memory ran out. `limit`: the job's own, if it did so
    because of that, such as `8.0 GiB`."""
    words = last_words(lines)
    name = signal_name(code - 128)
    if name:
        at_limit = f" at the job's limit of {limit} on this node" if limit else ""
        killed = (
            f"out of memory: the kernel killed it{at_limit}" if short and name == "SIGKILL" else f"killed by {name}"
        )
        words = killed + (f", last line: {words}" if words else "")
    elif short:
        which = f"the job's limit of {limit} on this node was reached" if limit else "memory ran out"
        killed = "killed a process of it" if limit else "killed a process on this node"
        words = f"{words or 'it printed nothing'} ({which}: the kernel {killed})"
    return words or "it printed nothing"


def signal_name(number: int) -> str:
    """ "" for a number that is not a signal's."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
