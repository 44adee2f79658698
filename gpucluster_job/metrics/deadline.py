"""When the job ends, and how long the program that reads its metrics may take then: a line of its standard input."""

from __future__ import annotations

import select
import sys
import time

ORPHANED_S = 2.0


class Deadline:
    def __init__(self) -> None:
        self.limit_s: float | None = None
        """None while the job runs."""
        self._at = 0.0

    def look(self, pause_s: float = 0.0) -> bool:
        """Waits for so long. Returns whether the job has ended. If its process has died, input ends without a line."""
        if self.limit_s is None and select.select([sys.stdin], [], [], pause_s)[0]:
            try:
                self.limit_s = float(sys.stdin.readline())
            except ValueError:
                self.limit_s = ORPHANED_S
            self._at = time.monotonic() + self.limit_s
        return self.limit_s is not None

    @property
    def has_passed(self) -> bool:
        return self.limit_s is not None and time.monotonic() > self._at
