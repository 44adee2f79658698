"""Moves many files between Lustre and S3 by requests to Lustre, and waits until they have arrived.

At most IN_FLIGHT requests at a time, because Lustre's metadata server keeps each until it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpucluster_node.lustre import hsm

IN_FLIGHT = 1000
POLL_S = 2.0
MOST_TRIES = 3
STALL_S = 1800.0
"""If no further file, and no byte of one, has moved in this time, the remaining files have failed."""


@dataclass
class Outcome:
    files: int = 0
    """Files checked."""
    moved: int = 0
    """Files that had to be moved, and were."""
    failed: dict[str, str] = field(default_factory=dict)
    """Path -> why."""


@dataclass
class Transfer:
    verb: str
    """hsm_restore | hsm_archive."""
    done: Callable[[hsm.State], bool]
    tell: Callable[[int, int], None] = lambda done, total: None
    """Called with the number of finished files and of all files."""
    run: hsm.Run = hsm.run
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    _tries: dict[str, int] = field(default_factory=dict)
    _said: dict[str, str] = field(default_factory=dict)
    _actions: dict[str, str] = field(default_factory=dict)
    _moving: bool = False
    """Whether Lustre has reported progress of a file."""

    def of(self, paths: Sequence[str]) -> Outcome:
        found, failed = hsm.states(paths, self.run)
        outcome = Outcome(len(paths), 0, failed)
        waiting = [path for path, state in found.items() if not self.done(state)]
        total, flying, since = len(waiting), set[str](), self.now()
        self.tell(0, total)
        while waiting or flying:
            started, waiting = waiting[: IN_FLIGHT - len(flying)], waiting[IN_FLIGHT - len(flying) :]
            self._request(started)
            flying |= set(started)
            self.sleep(POLL_S)
            before, flying = len(flying), self._left(flying, outcome)
            if len(flying) < before:
                since = self.now()
                self.tell(outcome.moved, total)
            elif self._moving:
                since = self.now()
            elif self.now() - since > STALL_S:
                outcome.failed |= dict.fromkeys([*flying, *waiting], f"nothing moved within {STALL_S / 60:.0f} minutes")
                break
        return outcome

    def _request(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._tries[path] = self._tries.get(path, 0) + 1
        refused = hsm.request(self.verb, paths, self.run)
        self._said |= refused

    def _left(self, flying: set[str], outcome: Outcome) -> set[str]:
        """Files that have not arrived yet. If Lustre has given up on one, it is requested again, and finally fails."""
        now = hsm.actions(sorted(flying), self.run)
        self._moving, self._actions = any(now[path] != self._actions.get(path) for path in now), now
        idle = {path for path, what in now.items() if what == hsm.IDLE}
        found, gone = hsm.states(sorted(flying), self.run)
        outcome.failed |= gone
        arrived = {path for path, state in found.items() if self.done(state)}
        outcome.moved += len(arrived)
        given_up = sorted((idle & set(found)) - arrived)
        failed = {path for path in given_up if self._tries[path] >= MOST_TRIES}
        outcome.failed |= {path: self._said.get(path, "Lustre gave up on it") for path in failed}
        self._request([path for path in given_up if path not in failed])
        return flying - arrived - failed - set(gone)
