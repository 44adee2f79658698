"""What servers and schedulers say of errors. MXNet's servers continue after an error in an optimizer, without it."""

from __future__ import annotations

import re

from gpucluster_job.ranks.last_words import Ignored, last_words

_LABEL = re.compile(rb"\[((?:server-\d+)|scheduler) [^]]+\] (.*)", re.DOTALL)
_TRACEBACK = b"Traceback (most recent call last):"
LONGEST_LINES = 200


class ServerErrors:
    """The first traceback of each server."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._ignored: dict[str, Ignored] = {}

    def hear(self, line: bytes) -> None:
        """A line with its label."""
        match = _LABEL.match(line)
        if not match or self._ignored.setdefault(label := match[1].decode(), Ignored()).has(match[2]):
            return
        if match[2].endswith(_TRACEBACK):
            self._lines.setdefault(label, [])
        lines = self._lines.get(label)
        if lines is not None and len(lines) < LONGEST_LINES:
            lines.append(match[2].decode(errors="replace"))

    def result(self) -> dict[str, object]:
        """The field `server_errors` of result.json; none without errors."""
        found = {label: last_words(lines) for label, lines in sorted(self._lines.items())}
        return {"server_errors": found} if found else {}
