"""The terminal, which shows text that others wrote: job names, reasons, logs, messages of programs.

A terminal obeys control characters. A job's name could set the clipboard (OSC 52) or the title (OSC 0), erase a row, or
turn its letters around. `Screen` shows such a character as its escape, `\\x1b`, in the output of every verb. systemd's
journalctl and GNU ls do the same. Colours stay, because our messages have them and programs write them into logs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TextIO

# Unicode's controls and formats: C0, C1, soft hyphen, fillers, zero width, separators of lines and paragraphs,
# directions of writing (https://trojansource.codes), invisible operators, annotations, tags; halves of surrogate pairs.
_OBEYED = (
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_COLOUR = r"\x1b\[([0-9;]{0,40})m"
_IN_TEXT = re.compile(f"{_COLOUR}|{_OBEYED}")
_IN_LINE = re.compile(_OBEYED)
_HIDES = {5, 6, 8}
"""Parameters of blinking and concealed text."""
_OF_A_COLOUR = {2: 3, 5: 1}
"""After 38 and 48: how many numbers follow the kind of a colour."""


def shown(text: str, kept: str = "\n\t") -> str:
    """What `Screen` shows. `kept`: control characters that the terminal may obey."""
    return _IN_TEXT.sub(lambda found: found[0] if found[0] in kept or _is_colour(found) else _escaped(found), text)


def shown_log(text: str) -> str:
    """A job's own output, whose progress bars return to the beginning of their line."""
    return shown(text, "\n\t\r\b")


def one_line(text: str) -> str:
    """Text that must not end its line, such as a cell of a table: line breaks, tabs and colours are escaped as well."""
    return _IN_LINE.sub(_escaped, text)


def _is_colour(found: re.Match[str]) -> bool:
    """Whether none of its numbers hides text."""
    if found[1] is None:
        return False
    numbers = [int(each or 0) for each in found[1].split(";")]
    while numbers:
        number = numbers.pop(0)
        if number in (38, 48):
            follow = _OF_A_COLOUR.get(numbers.pop(0)) if numbers else None
            if follow is None:
                return False
            del numbers[:follow]
        elif number in _HIDES:
            return False
    return True


def _escaped(found: re.Match[str]) -> str:
    """A colour that is not kept loses its first character's meaning; the rest of it is plain text."""
    return ascii(found[0])[1:-1]


class Screen:
    """A text stream that shows what is written into it. Bytes, as of `gpucluster ssh`, pass through its buffer."""

    def __init__(self, stream: TextIO, show: Callable[[str], str] = shown) -> None:
        self.stream, self._show = stream, show

    def write(self, text: str) -> int:
        return self.stream.write(self._show(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def of_logs() -> Any:
    """The screen on stdout for a job's log: `click.echo(line, file=screen.of_logs())`."""
    return Screen(getattr(sys.stdout, "stream", sys.stdout), shown_log)
