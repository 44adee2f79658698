"""The requests of online validators, and results that several of them need."""

from __future__ import annotations

from typing import Any, Protocol

from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Unanswered

Answer = dict[str, Any]


class Refused(Unanswered):
    """AWS answered with an error. Unless the validator handles the error code, the rule could not be checked."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}" + (f": {message}" if message else ""))
        self.operation = operation
        self.code = code


class Account(Protocol):
    def ask(self, service: str, operation: str, /, **parameters: Any) -> Answer:
        """The whole response, with all pages. Equal requests are sent once. Raises Refused."""
        ...


def deployed(account: Account, config: ClusterConfig) -> bool:
    """Whether the cluster's stack exists: it then already has its resources."""
    try:
        stacks = account.ask("cloudformation", "describe_stacks", StackName=config.name)["Stacks"]
    except Refused as refusal:
        if refusal.code == "ValidationError":
            return False
        raise
    return any(stack["StackStatus"] not in ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS") for stack in stacks)


def zones(account: Account, *, local: bool = False) -> list[str]:
    """Names of the region's available zones, in order; `local` adds the Local Zones that the account opted in to."""
    found = account.ask("ec2", "describe_availability_zones")["AvailabilityZones"]
    usable = (zone for zone in found if zone.get("State", "available") == "available")
    kinds = ("availability-zone", "local-zone", "wavelength-zone") if local else ("availability-zone",)
    return sorted(zone["ZoneName"] for zone in usable if zone.get("ZoneType", "availability-zone") in kinds)


def zone(account: Account, config: ClusterConfig) -> str | None:
    """The cluster's zone. None if the region has none."""
    return config.availability_zone or next(iter(zones(account)), None)
