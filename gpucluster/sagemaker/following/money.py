"""What training jobs have cost. Pure.

SageMaker bills BillableTimeInSeconds × InstanceCount (botocore's documentation of DescribeTrainingJob). Waiting for
instances is free. Of a job that has not ended, the time since TrainingStartTime counts; of one on spot instances, that
is the price on demand, until SageMaker says what it bills.
"""

from __future__ import annotations

from typing import NamedTuple

from gpucluster.sagemaker import prices
from gpucluster.sagemaker.following.training import Training


class Cost(NamedTuple):
    hours: float
    """Billed instance-hours, so far."""
    usd: float | None
    """None: the price of the type is not known."""
    saved_usd: float = 0.0
    """By spot instances."""


def of(job: Training, region: str, now: float) -> Cost:
    price = prices.of(job.instance_type, region)
    billed = job.billable_s if job.billable_s is not None else (job.elapsed(now) or 0.0)
    hours = billed * job.instances / 3600
    saved = 0.0
    if price and job.spot and job.training_s and job.billable_s is not None:
        saved = max(0, job.training_s - job.billable_s) * job.instances / 3600 * price.usd
    return Cost(hours, price.usd * hours if price else None, saved)
