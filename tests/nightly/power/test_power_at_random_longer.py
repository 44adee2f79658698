"""A thousand random stories of EC2, Slurm and programs, new in each run. `SEED=N` repeats the run that printed it."""

from __future__ import annotations

from tests.new_each_run import new_each_run
from tests.unit.node.power.random_events import TROUBLED, all_ends_well

SUBJECTS = [
    "bootstrap/gpucluster_node/power/*",
    "bootstrap/gpucluster_node/ec2.py",
    "bootstrap/gpucluster_node/retry.py",
    "bootstrap/gpucluster_node/slurm.py",
    "bootstrap/gpucluster_node/states.py",
    "tests/unit/node/power/random_*.py",
]
COVERED_BY = "test_node_power_at_random.py: 60 of the same stories"
STORIES = 1000


@new_each_run(STORIES, **TROUBLED)
def test_all_ends_well(events: list[str], trouble: list[str], lag_s: float) -> None:
    all_ends_well(events, trouble, lag_s)
