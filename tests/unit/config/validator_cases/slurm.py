from __future__ import annotations

from validator_cases.case import Case, cluster

CASES: dict[str, Case | list[Case]] = {
    "slurm-memory": Case(
        fails=cluster(slurm={"memory": "limited"}),
        key="slurm.memory",
        says="must be shared or allocated, got 'limited'",
        passes=cluster(slurm={"memory": "allocated"}),
    ),
}
