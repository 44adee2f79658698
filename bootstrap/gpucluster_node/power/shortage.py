"""Decides when EC2 is asked again for capacity that it lacked: the launches of a partition take turns, with one call in
about 15 s.

When a launch has got instances, even if not for all its nodes, all others of the partition may call at once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 15
_BETWEEN_S = (12.0, 17.0)
"""Random, so that clusters whose calls failed at the same time do not repeat them at the same time."""
_turn = threading.Lock()
_next: dict[str, float] = {}
"""Partition that lacks capacity -> when one of its launches may call again."""
_waiting: dict[str, dict[int, int]] = {}
"""Partition -> how many nodes each launch must get that waits for its turn."""


class Turns:
    """The turns of one launch."""

    def __init__(self, partition: str, clock: Callable[[], float]) -> None:
        """clock: the same for all launches."""
        self._partition, self._clock = partition, clock
        self._sizes = _waiting.setdefault(partition, {})

    def failed(self) -> None:
        """A first call that fails does not put off the turn of those that wait."""
        with _turn:
            if self._clock() >= _next.get(self._partition, 0.0):
                self._put_off()

    def succeeded(self) -> None:
        _next.pop(self._partition, None)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While the launch waits."""
        try:
            yield
        finally:
            self._sizes.pop(id(self), None)

    def may_call(self, nodes: int) -> bool:
        """Whether the caller may call EC2 now. If so, no other launch may until this call has failed or succeeded.
        nodes: how many the caller must get. The launches of the fewest nodes come first: if EC2 lacks capacity for
        them, it lacks it for the others, and if it has some, all may call at once."""
        with _turn:
            self._sizes[id(self)] = nodes
            at = _next.get(self._partition)
            if at is None:
                return True
            if nodes > min(list(self._sizes.values())) or self._clock() < at:
                return False
            self._put_off()
            return True

    def _put_off(self) -> None:
        _next[self._partition] = self._clock() + random.uniform(*_BETWEEN_S)
