"""What the training jobs of some time have cost. A job counts in the time in which it was created."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from gpucluster.sagemaker.following import jobs, money
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Training

NOT_RECORDED = "not recorded"


class Charge(NamedTuple):
    job: Training
    cost: money.Cost

    @property
    def failed_usd(self) -> float:
        return (self.cost.usd or 0.0) if self.job.failed else 0.0


class Row(NamedTuple):
    key: str
    charges: tuple[Charge, ...]

    @property
    def hours(self) -> float:
        return sum(each.cost.hours for each in self.charges)

    @property
    def usd(self) -> float | None:
        """None if no price of it is known."""
        known = [each.cost.usd for each in self.charges if each.cost.usd is not None]
        return sum(known) if known else None

    @property
    def failed_usd(self) -> float:
        return sum(each.failed_usd for each in self.charges)

    @property
    def saved_usd(self) -> float:
        return sum(each.cost.saved_usd for each in self.charges)


def read(account: Account, since_s: float, until_s: float, now: float) -> list[Charge]:
    """Raises AwsError."""
    found = jobs.created(account, since_s, until_s)
    return [Charge(job, money.of(job, account.target.region, now)) for job in found]


def rows(charges: Sequence[Charge], by: str) -> list[Row]:
    """In the order of their first jobs."""
    found: dict[str, list[Charge]] = {}
    for each in charges:
        found.setdefault(_key(each.job, by), []).append(each)
    return [Row(key, tuple(several)) for key, several in found.items()]


def _key(job: Training, by: str) -> str:
    """SageMaker does not say who created a job."""
    if by in ("day", "month"):
        return datetime.fromtimestamp(job.created, UTC).strftime("%Y-%m-%d" if by == "day" else "%Y-%m")
    return {"job": job.name, "task": job.title, "partition": job.instance_type}.get(by, NOT_RECORDED)


def unpriced(charges: Sequence[Charge]) -> list[str]:
    return sorted({each.job.instance_type for each in charges if each.cost.usd is None})
