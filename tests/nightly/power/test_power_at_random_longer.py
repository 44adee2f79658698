"""A thousand random stories of EC2, Slurm and programs, new in each run. `SEED=N` repeats the run that printed it."""

from __future__ import annotations

import os
import secrets

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.unit.node.power.random_events import TROUBLED, all_ends_well

SUBJECTS = [
    "bootstrap/gpucluster_node/power/*",
    "bootstrap/gpucluster_node/ec2.py",
    "bootstrap/gpucluster_node/retry.py",
    "bootstrap/gpucluster_node/slurm.py",
    "bootstrap/gpucluster_node/states.py",
    "tests/unit/node/power/random_*.py",
]
STORIES = 1000


def test_all_ends_well() -> None:
    chosen = int(os.environ.get("SEED", secrets.randbits(32)))
    print(f"SEED={chosen}")  # pytest shows it where the test fails

    @seed(chosen)
    @settings(
        max_examples=STORIES,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(**TROUBLED)
    def each(events: list[str], trouble: list[str], lag_s: float) -> None:
        all_ends_well(events, trouble, lag_s)

    each()
