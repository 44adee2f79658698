"""The learning rate of each step: a straight rise, then a polynomial fall."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Called with the number of steps done, returns the learning rate of the next step.

    It counts steps of the whole job, not epochs, so that the rate does not jump and all frameworks agree.
    """

    peak: float
    steps: int
    """Steps of the whole training, including warm-up."""
    warmup_steps: int = 0
    """With many ranks the first gradients are too rough for the full rate."""
    start: float = 0.0
    """The learning rate at the start of warm-up."""
    end: float = 0.0
    power: float = 2.0
    """Power of the decay: 1 is a straight line, 2 stays longer at low rates."""

    def __post_init__(self) -> None:
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(f"a warm-up of {self.warmup_steps} steps is too long: the training has {self.steps}")

    def __call__(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.start + (self.peak - self.start) * step / self.warmup_steps
        left = 1 - min(1.0, (step - self.warmup_steps) / (self.steps - self.warmup_steps))
        return self.end + float((self.peak - self.end) * left**self.power)

    @classmethod
    def of_epochs(
        cls,
        peak: float,
        epochs: int,
        steps_per_epoch: int,
        *,
        warmup_epochs: float = 0,
        start: float = 0.0,
        end: float = 0.0,
        power: float = 2.0,
    ) -> Schedule:
        warmup = round(warmup_epochs * steps_per_epoch)
        return cls(peak, epochs * steps_per_epoch, warmup, start, end, power)
