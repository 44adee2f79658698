"""Random examples that are new in each run. `SEED=N` repeats the run whose failure named it."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis.strategies import SearchStrategy

Test = Callable[..., None]


def new_each_run(examples: int, **strategies: SearchStrategy[Any]) -> Callable[[Test], Test]:
    """As hypothesis' `given`, for a test function. A failure prints the seed."""
    chosen = int(os.environ.get("SEED", secrets.randbits(32)))
    run = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def noted(*arguments: Any, **named: Any) -> None:
            note(f"SEED={chosen}")
            test(*arguments, **named)

        return seed(chosen)(run(given(**strategies)(noted)))

    return decorate
