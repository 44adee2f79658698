"""Whatever happens to EC2, Slurm and programs: no instance stays without a node, no node stays DOWN, no job is lost.

`tests/nightly/power/test_power_at_random_longer.py` tries more."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings

from tests.unit.node.power.random_events import TROUBLED, all_ends_well


@settings(max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(**TROUBLED)
@example(events=["5 s"], trouble=[*[""] * 5, "kill after", "slow"], lag_s=16.0)  # POWER_UP stays, though it is up
def test_all_ends_well(events: list[str], trouble: list[str], lag_s: float) -> None:
    all_ends_well(events, trouble, lag_s)
