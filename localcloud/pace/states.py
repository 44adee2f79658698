"""Instances that take as long to start and to terminate as on AWS."""

from __future__ import annotations

from collections.abc import Callable

from localcloud.pace.clock import Clock
from localcloud.pace.figures import Figures, Seconds, of_type


class States:
    def __init__(self, clock: Clock, figures: Figures, draw: Callable[[Seconds], float]) -> None:
        self._clock = clock
        self._figures = figures
        self._draw = draw
        self._runs_at: dict[str, float] = {}
        self._ends_at: dict[str, float] = {}

    def starting(self, instance_id: str, instance_type: str) -> None:
        self._runs_at[instance_id] = self._clock.now() + self._draw(of_type(self._figures.pending, instance_type))

    def shown(self, instance_id: str, instance_type: str, state: str | None) -> str | None:
        """The state that EC2 shows; `state` is the machine's."""
        now = self._clock.now()
        if state == "running" and now < self._runs_at.get(instance_id, now):
            return "pending"
        if state in ("shutting-down", "terminated"):
            if instance_id not in self._ends_at:
                self._ends_at[instance_id] = now + self._draw(of_type(self._figures.shutting_down, instance_type))
            return "shutting-down" if now < self._ends_at[instance_id] else state
        return state
