"""SageMaker's quotas on instances of training jobs.

https://docs.aws.amazon.com/general/latest/gr/sagemaker.html has their names. AWS gives each a code of its own; these
are made from the names, because no list of AWS's codes is part of this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from moto.core.utils import get_service_model

from localcloud.faults import Faults
from localcloud.training.jobs import Job

UNLIMITED = 1_000_000.0
"""Instances, unless a `quota` fault sets less: AWS's own defaults, 0 for types with GPUs, would refuse most jobs."""


def name(instance_type: str, *, spot: bool) -> str:
    return f"{instance_type} for {'spot ' if spot else ''}training job usage"


def names() -> list[str]:
    """Those of all instance types in the request's model."""
    types = get_service_model("sagemaker").shape_for("TrainingInstanceType").metadata["enum"]
    return [name(each, spot=spot) for each in types for spot in (False, True)]


def code(quota: str) -> str:
    return f"L-{hashlib.sha256(quota.encode()).hexdigest()[:8].upper()}"


def limit(faults: Faults, quota: str) -> float:
    """The fault names the quota by its code or by its name."""
    chosen = [value for each in (code(quota), quota) if (value := faults.quota(each)) is not None]
    return chosen[-1] if chosen else UNLIMITED


def used(jobs: Iterable[Job], instance_type: str, *, spot: bool) -> int:
    return sum(
        len(job.hosts) for job in jobs if not job.finished and (job.instance_type, job.spot) == (instance_type, spot)
    )


def refusal(faults: Faults, jobs: Iterable[Job], job: Job) -> str:
    """The message of ResourceLimitExceeded: sagemaker-examples#263. "" if the job fits."""
    quota, count = name(job.instance_type, spot=job.spot), len(job.hosts)
    most, taken = limit(faults, quota), used(jobs, job.instance_type, spot=job.spot)
    if taken + count <= most:
        return ""
    return (
        f"The account-level service limit '{quota}' is {most:.0f} Instances, with current utilization of {taken} "
        f"Instances and a request delta of {count} Instances. Please contact AWS support to request an increase for "
        "this limit."
    )


def shown(faults: Faults, quota: str, region: str, account_id: str) -> dict[str, Any]:
    """In the form of Service Quotas' answer."""
    return {
        "ServiceCode": "sagemaker",
        "ServiceName": "Amazon SageMaker",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{account_id}:sagemaker/{code(quota)}",
        "QuotaCode": code(quota),
        "QuotaName": quota,
        "Value": limit(faults, quota),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
