"""What an instance of SageMaker costs in an hour: EC2's price on demand times a factor of the type.

The factors are those of 38 prices that AWS's price list had between 2021 and September 2026, in us-east-1, us-east-2
and us-west-2: tests/data/sagemaker/prices.csv has each with its source, and differs from these by 0.2 % at most. That
the factor is the same in other regions is an assumption. A type of a family that is not here has no price.
"""

from __future__ import annotations

from gpucluster.hardware import prices
from gpucluster.hardware.prices import Price

AS_OF = "2026-09"
PREFIX = "ml."
_BY_TYPE = {"p3.2xlarge": 1.25, "p3.8xlarge": 1.20, "g4dn.xlarge": 1.40, "g5.xlarge": 1.40, "g6.xlarge": 1.40}
_BY_FAMILY = {
    **dict.fromkeys(("p3", "p3dn", "p4d", "p4de", "p5"), 1.15),
    **dict.fromkeys(("g4dn", "g5", "g6", "g6e"), 1.25),
    **dict.fromkeys(("m5", "c5", "r5"), 1.20),
}
_UNSEEN = ("p5.4xlarge", "g6e.xlarge")
"""Sizes whose siblings have other factors, or which nobody has quoted."""


def factor(instance_type: str) -> float | None:
    """`instance_type`: with or without `ml.`. How many times EC2's price it costs."""
    name = instance_type.removeprefix(PREFIX)
    if name in _UNSEEN:
        return None
    return _BY_TYPE.get(name) or _BY_FAMILY.get(name.partition(".")[0])


def of(instance_type: str, region: str) -> Price | None:
    """USD for an hour of one instance. None if it is not known."""
    times, ec2 = factor(instance_type), prices.of(instance_type.removeprefix(PREFIX), region)
    return ec2.times(times) if times and ec2 else None
