"""Finds in one line why a program ended, in the last lines that it printed."""

from __future__ import annotations

import re
import signal
from typing import Iterable

LONGEST = 1000
_TORCHS_LABEL = re.compile(r"^\[rank[0-9]+\]: ?")
_STACK = re.compile(r"frame #[0-9]+: |Exception raised from ")
_WATCHDOG = re.compile(r"Watchdog caught collective operation timeout: .*")
_WHAT = re.compile(r" *what\(\): +(.*)")


def last_words(lines: Iterable[str]) -> str:
    """The exception's line of the last traceback; without one, the last line that is not blank.

    torch labels lines itself and prints stack frames after the message: the one after `what():`, or its watchdog's.
    """
    last = exception = ""
    inside = False
    for line in (_TORCHS_LABEL.sub("", each) for each in lines):
        sentence = _WATCHDOG.search(line) or _WHAT.match(line)
        if sentence:
            last = exception = sentence[sentence.lastindex or 0]
        elif line.endswith("Traceback (most recent call last):"):
            inside = True
        elif line.strip() and not _STACK.match(line):
            if inside and not line[0].isspace():
                exception, inside = line, False
            last = line
    return (exception or last).replace("\t", " ")[:LONGEST]


def reason(code: int, lines: Iterable[str]) -> str:
    """`code` as a shell gives it: 128 plus the signal's number for a program, or its own child, that was killed."""
    words = last_words(lines)
    name = signal_name(code - 128)
    if name:
        words = f"killed by {name}" + (f", last line: {words}" if words else "")
        if name == "SIGKILL":
            words += " (the kernel does that when memory runs out)"
    return words or "it printed nothing"


def signal_name(number: int) -> str:
    """ "" for a number that is not a signal's."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
