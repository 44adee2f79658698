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


def last_words(lines: Iterable[str]) -> str:
    """The exception's line of the last traceback; without one, the last line that is not blank.

    torch labels lines itself and prints stack frames after the message: the one after `what():`, or its watchdog's.
    faulthandler prints Python's stacks after the error.
    """
    last = exception = cause = ""
    inside = False
    for line in (_TORCHS_LABEL.sub("", each) for each in lines):
        said = _WATCHDOG.search(line) or _WHAT.match(line)
        if said:
            last = exception = cause = said[said.lastindex or 0]
        elif fatal := _FATAL.match(line):
            last = exception = cause if cause and line.startswith(_ABORTED) else fatal[0]
        elif line.endswith("Traceback (most recent call last):"):
            inside = True
        elif line.strip() and not _STACK.match(line):
            if inside and not line[0].isspace():
                exception, inside = line, False
            last = line
    return (exception or last).replace("\t", " ")[:LONGEST]


def reason(code: int, lines: Iterable[str], *, short: bool = False) -> str:
    """`code` as a shell gives it: 128 plus the signal's number for a program, or its own child, that was killed.
    `short`: the kernel has killed a process of this node because memory ran out."""
    words = last_words(lines)
    name = signal_name(code - 128)
    if name:
        killed = "out of memory: the kernel killed it" if short and name == "SIGKILL" else f"killed by {name}"
        words = killed + (f", last line: {words}" if words else "")
    elif short:
        words = f"{words or 'it printed nothing'} (memory ran out: the kernel killed a process on this node)"
    return words or "it printed nothing"


def signal_name(number: int) -> str:
    """ "" for a number that is not a signal's."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
