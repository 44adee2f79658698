"""How a training job ended, as the result.json of a job of the cluster has it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from gpucluster.following.jobs import Ending
from gpucluster.following.metrics import Point
from gpucluster.sagemaker.following import metrics
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Training


def of(account: Account, job: Training) -> Ending:
    """Raises AwsError."""
    return Ending(job.state, result(job, metrics.points(account, job)))


def result(job: Training, values: dict[str, list[Point]]) -> dict[str, Any]:
    """The time is that of the state Training, without the copies before and after it, as Slurm's is without the boot.
    Empty if it never trained."""
    trained = [step for step in job.steps if step.status == "Training"]
    begun = trained[0].begun if trained else job.started
    ended = (trained[-1].ended if trained else None) or job.finished
    if begun is None or ended is None:
        return {}
    return {
        "exit_code": 0 if job.status == "Completed" else 1,
        "started_at": _iso(begun),
        "ended_at": _iso(ended),
        "reason": job.doing(0),
        "node_list": [f"algo-{number}" for number in range(1, job.instances + 1)],
        "metrics": {name: _summary(found) for name, found in values.items()},
    }


def _summary(points: Sequence[Point]) -> dict[str, Any]:
    values = [each.value for each in points]
    return {"count": len(values), "median": median(values), "last": values[-1]}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
