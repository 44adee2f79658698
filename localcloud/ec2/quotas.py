"""EC2's quotas on vCPUs: which one applies to an instance type, what is in use, what a launch may add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import catalogue
from localcloud.ec2.errors import Ec2Error
from localcloud.faults import Faults

UNLIMITED = 1_000_000.0
"""vCPUs, unless a `quota` fault sets less: AWS's own defaults, some of them 0, would refuse most clusters."""
ADDRESSES, MOST_ADDRESSES = "L-0263D0A3", 5.0
"""Elastic addresses of a Region: its code, and AWS's default."""
_FREE = ("stopped", "terminated", "shutting-down")


@dataclass(frozen=True)
class Quota:
    code: str
    name: str
    families: tuple[str, ...]
    """The letters of an instance type before the generation's digit."""
    spot: bool = False
    generations: tuple[str, ...] = ()
    """Digits of the generations that the quota covers; empty: all."""


_STANDARD = ("a", "c", "d", "h", "i", "m", "r", "t", "z")
# Service Quotas' own codes and names.
QUOTAS = (
    Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", _STANDARD),
    Quota("L-DB2E81BA", "Running On-Demand G and VT instances", ("g", "gr", "vt")),
    Quota("L-417A185B", "Running On-Demand P instances", ("p",)),
    Quota("L-2C3B7624", "Running On-Demand Trn instances", ("trn",)),
    Quota("L-7295265B", "Running On-Demand X instances", ("x",)),
    Quota("L-F7808C92", "Running On-Demand HPC instances", ("hpc",)),
    Quota("L-43DA4232", "Running On-Demand High Memory instances", ("u",)),
    Quota("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", _STANDARD, True),
    Quota("L-3819A6DF", "All G and VT Spot Instance Requests", ("g", "gr", "vt"), True),
    Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", ("p",), True, ("2", "3", "4")),
    Quota("L-C4BD4855", "All P5 Spot Instance Requests", ("p",), True, ("5",)),
    Quota("L-6B0D517C", "All Trn Spot Instance Requests", ("trn",), True),
    Quota("L-E3A00192", "All X Spot Instance Requests", ("x",), True),
)


def of_type(instance_type: str, *, spot: bool) -> Quota | None:
    """None for families without a quota here."""
    family = instance_type.rstrip("0123456789").partition(".")[0]
    letters = "".join(_take(family))
    generation = family[len(letters) : len(letters) + 1]
    for quota in QUOTAS:
        if quota.spot == spot and letters in quota.families and generation in (quota.generations or (generation,)):
            return quota
    return None


def _take(family: str) -> list[str]:
    letters: list[str] = []
    for character in family:
        if not character.isalpha():
            break
        letters.append(character)
    return letters


def limit(faults: Faults, quota: Quota) -> float:
    chosen = faults.quota(quota.code)
    return UNLIMITED if chosen is None else chosen


def check_addresses(faults: Faults, backend: EC2Backend) -> None:
    """https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html#vpc-limits-eips"""
    chosen = faults.quota(ADDRESSES)
    if len(backend.addresses) >= (MOST_ADDRESSES if chosen is None else chosen):
        raise Ec2Error("AddressLimitExceeded", "The maximum number of addresses has been reached.")


def check(faults: Faults, backend: EC2Backend, instance_type: str, count: int, market: str) -> None:
    """Refuses `count` more instances if they exceed their quota."""
    quota = _quota(instance_type, market)
    if quota is None or count <= room(faults, backend, instance_type, market):
        return
    if quota.spot:
        raise Ec2Error("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    raise Ec2Error(
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of "
        f"{limit(faults, quota):.0f} allows for the instance bucket that the specified instance type "
        "belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
    )


def room(faults: Faults, backend: EC2Backend, instance_type: str, market: str) -> float:
    """How many more instances their quota allows."""
    quota = _quota(instance_type, market)
    if quota is None:
        return UNLIMITED
    return (limit(faults, quota) - _used(backend, quota)) // _vcpus(instance_type)


def _quota(instance_type: str, market: str) -> Quota | None:
    """Capacity Blocks count against no quota."""
    return of_type(instance_type, spot=market == "spot") if market in ("on-demand", "spot") else None


def _used(backend: EC2Backend, quota: Quota) -> int:
    return sum(
        _vcpus(instance.instance_type)
        for instance in backend.all_instances()
        if instance.state not in _FREE
        and instance.lifecycle in (None, "spot")
        and of_type(instance.instance_type, spot=instance.lifecycle == "spot") == quota
    )


def _vcpus(instance_type: str) -> int:
    return catalogue.hardware(instance_type).vcpus


def shown(faults: Faults, quota: Quota, region: str, account_id: str) -> dict[str, Any]:
    """In the form of Service Quotas' answer."""
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{account_id}:ec2/{quota.code}",
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": limit(faults, quota),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
