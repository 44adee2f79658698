"""Capacity reservations and capacity blocks, and launches into them.

A reservation that begins in the future is `scheduled`, one that has ended `expired`; both are computed from the clock
at each query.
"""

from __future__ import annotations

import datetime
import secrets
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response

from localcloud.ec2 import catalogue, kept, lifecycle, placement
from localcloud.ec2.errors import Ec2Error
from localcloud.machines.spec import Hypervisor

Request = dict[str, Any]
RESERVATIONS = "capacity reservations"
_OFFERINGS = "capacity block offerings"
_FREE = ("stopped", "terminated")  # states in which an instance uses no capacity
BLOCK = "capacity-block"
_TERMINATES = datetime.timedelta(minutes=30)
"""So long before a Capacity Block's EndDate EC2 terminates its instances (EC2's guide, capacity-blocks-monitor)."""


def target(request: Request) -> str | None:
    """The reservation that a launch names."""
    chosen = (request.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    return chosen.get("CapacityReservationId")


FULL = "The requested reservation does not have sufficient compatible and available capacity for this request."
"""Worded as in hashicorp/terraform-provider-aws#35745 and scylladb/scylla-cluster-tests#8839."""


def market(request: Request) -> str:
    """on-demand | spot | capacity-block"""
    return str((request.get("InstanceMarketOptions") or {}).get("MarketType") or "on-demand")


def check(backend: EC2Backend, request: Request, availability_zone: str) -> None:
    """A launch that names a reservation must match it; one with market type capacity-block must name one."""
    _check_market(request)
    reservation_id = target(request)
    if not reservation_id:
        return
    found = get(backend, reservation_id)
    wanted = {"InstanceType": request["InstanceType"], "AvailabilityZone": availability_zone}
    group = placement.group_name(backend, request.get("Placement") or {})
    if found["State"] != "active" or any(found[key] != value for key, value in wanted.items()):
        raise _exceeded(
            f"The capacity reservation {reservation_id} ({found['State']}, {found['InstanceType']} in "
            f"{found['AvailabilityZone']}) does not match the launch ({', '.join(wanted.values())})."
        )
    if group and not str(found.get("PlacementGroupArn") or "").endswith(f":placement-group/{group}"):
        raise _exceeded(f"The capacity reservation {reservation_id} was not made for the placement group '{group}'.")
    if found["ReservationType"] == BLOCK and market(request) != BLOCK:
        raise Ec2Error(  # terraform-aws-modules/terraform-aws-ec2-instance#404
            "InvalidParameterValue",
            "The market type (purchasing) option is not valid. Choose a different market type and try again",
        )
    if found["ReservationType"] != BLOCK and market(request) == BLOCK:
        raise Ec2Error(
            "InvalidParameterCombination",
            f"The capacity reservation {reservation_id} is of type {found['ReservationType']}, the market type of the "
            f"launch is {market(request)}. Capacity Blocks need market type {BLOCK}, other reservations do without.",
        )
    if int(request.get("MinCount") or 1) > found["AvailableInstanceCount"]:
        raise _exceeded(FULL)


def room(backend: EC2Backend, request: Request) -> float:
    """How many instances the launch's reservation still has room for; any number if it names none."""
    reservation_id = target(request)
    return float(get(backend, reservation_id)["AvailableInstanceCount"]) if reservation_id else float("inf")


def check_start(backend: EC2Backend, instance: Instance) -> None:
    """A stopped instance needs its place in the reservation again."""
    reservation_id = getattr(instance, "capacity_reservation_id", None)
    if reservation_id and get(backend, reservation_id)["AvailableInstanceCount"] < 1:
        raise _exceeded(FULL)


def _check_market(request: Request) -> None:
    chosen = (request.get("CapacityReservationSpecification") or {}).get("CapacityReservationPreference")
    if market(request) == BLOCK and not target(request):
        raise Ec2Error("InvalidParameterCombination", "A launch into a Capacity Block must name its reservation.")
    if market(request) == "spot" and target(request):
        raise Ec2Error("InvalidParameterCombination", "Spot Instances cannot target a capacity reservation.")
    if target(request) and chosen not in (None, "capacity-reservations-only"):
        raise Ec2Error(
            "InvalidParameterCombination",
            f"A capacity reservation target cannot be combined with the preference '{chosen}'.",
        )


def _exceeded(message: str) -> Ec2Error:
    return Ec2Error("ReservationCapacityExceeded", message)


def get(backend: EC2Backend, reservation_id: str) -> kept.Record:
    """The reservation's current state."""
    found = kept.of(backend, RESERVATIONS).get(reservation_id)
    if found is None:
        raise Ec2Error(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{reservation_id}' does not exist."
        )
    return _refresh(backend, found)


def end_blocks(hypervisor: Hypervisor, backend: EC2Backend) -> None:
    """Terminates the instances of Capacity Blocks that end; called before each EC2 action. EC2 documents no state
    reason for this."""
    now = datetime.datetime.now(datetime.UTC)
    for instance in backend.all_instances() if kept.of(backend, RESERVATIONS) else ():
        found = kept.of(backend, RESERVATIONS).get(getattr(instance, "capacity_reservation_id", None) or "")
        ends = found and found["ReservationType"] == BLOCK and found["EndDate"] - _TERMINATES <= now
        if ends and instance.state in ("pending", "running"):
            lifecycle.terminate(hypervisor, instance)


def end_early(reservation_id: str, terminates_in_s: float) -> None:
    """Moves the end of a Capacity Block. Raises ValueError."""
    found = next(
        filter(None, (kept.of(each, RESERVATIONS).get(reservation_id) for each in lifecycle.all_backends())), None
    )
    if found is None or found["ReservationType"] != BLOCK:
        raise ValueError(f"no Capacity Block {reservation_id} in this cloud")
    now = datetime.datetime.now(datetime.UTC)
    found["EndDate"] = now + datetime.timedelta(seconds=terminates_in_s) + _TERMINATES


def _refresh(backend: EC2Backend, record: kept.Record) -> kept.Record:
    if record["State"] in ("scheduled", "active"):
        now = datetime.datetime.now(datetime.UTC)
        begun, ended = record["StartDate"] <= now, record.get("EndDate") is not None and record["EndDate"] <= now
        record["State"] = "expired" if ended else "active" if begun else "scheduled"
    used = sum(
        getattr(instance, "capacity_reservation_id", None) == record["CapacityReservationId"]
        and instance.state not in _FREE
        for instance in backend.all_instances()
    )
    active = record["State"] == "active"
    record["AvailableInstanceCount"] = max(record["TotalInstanceCount"] - used, 0) if active else 0
    return record


class CapacityReservationActions(EC2Response):
    def create_capacity_reservation(self) -> ActionResult:
        instance_type, count = self._get_param("InstanceType"), int(self._get_param("InstanceCount") or 0)
        if not catalogue.exists(instance_type):
            raise Ec2Error("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
        if count < 1:
            raise Ec2Error("InvalidParameterValue", f"Value ({count}) for parameter instanceCount is invalid.")
        self.error_on_dryrun()
        names = ("InstancePlatform", "AvailabilityZone", "Tenancy", "EndDateType", "InstanceMatchCriteria")
        given = {name: self._get_param(name) for name in (*names, "PlacementGroupArn") if self._get_param(name)}
        dates = {name: _aware(self._get_param(name)) for name in ("StartDate", "EndDate") if self._get_param(name)}
        return ActionResult({"CapacityReservation": self._keep(instance_type, count, given | dates)})

    def _keep(self, instance_type: str, count: int, given: dict[str, Any]) -> kept.Record:
        reservation_id = f"cr-{secrets.token_hex(8)}0"
        prefix = f"arn:aws:ec2:{self.region}:{self.current_account}"
        record = {
            "CapacityReservationId": reservation_id,
            "CapacityReservationArn": f"{prefix}:capacity-reservation/{reservation_id}",
            "OwnerId": self.current_account,
            "InstanceType": instance_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": f"{self.region}a",
            "Tenancy": "default",
            "TotalInstanceCount": count,
            "State": "scheduled",
            "StartDate": datetime.datetime.now(datetime.UTC),
            "EndDateType": "unlimited",
            "InstanceMatchCriteria": "open",
            "ReservationType": "default",
            "CreateDate": utcnow(),
            "Tags": kept.tags(self, "capacity-reservation"),
        } | given
        kept.of(self.ec2_backend, RESERVATIONS)[reservation_id] = record
        return _refresh(self.ec2_backend, record)

    def describe_capacity_reservations(self) -> ActionResult:
        ids = self._get_param("CapacityReservationIds") or list(kept.of(self.ec2_backend, RESERVATIONS))
        records = [get(self.ec2_backend, reservation_id) for reservation_id in ids]
        return ActionResult({"CapacityReservations": kept.filtered(records, self._filters_from_querystring())})

    def modify_capacity_reservation(self) -> ActionResult:
        record = get(self.ec2_backend, self._get_param("CapacityReservationId"))
        if record["ReservationType"] == BLOCK:
            raise Ec2Error("UnsupportedOperation", "You cannot modify a Capacity Block.")
        self.error_on_dryrun()
        if count := self._get_param("InstanceCount"):
            record["TotalInstanceCount"] = int(count)
        names = ("EndDateType", "InstanceMatchCriteria")
        record |= {name: self._get_param(name) for name in names if self._get_param(name)}
        if end := self._get_param("EndDate"):
            record["EndDate"] = _aware(end)
        return ActionResult({"Return": True})

    def cancel_capacity_reservation(self) -> ActionResult:
        record = get(self.ec2_backend, self._get_param("CapacityReservationId"))
        if record["ReservationType"] == BLOCK:
            raise Ec2Error("UnsupportedOperation", "You cannot cancel a Capacity Block.")
        self.error_on_dryrun()
        record |= {"State": "cancelled", "AvailableInstanceCount": 0}
        return ActionResult({"Return": True})

    def describe_capacity_block_offerings(self) -> ActionResult:
        """One offering. It begins at the requested start, or immediately if the request has none."""
        begin = _aware(self._get_param("StartDateRange")) or datetime.datetime.now(datetime.UTC)
        hours = int(self._get_param("CapacityDurationHours") or 24)
        offering = {
            "CapacityBlockOfferingId": f"cbo-{secrets.token_hex(8)}0",
            "InstanceType": self._get_param("InstanceType"),
            "InstanceCount": int(self._get_param("InstanceCount") or 1),
            "AvailabilityZone": f"{self.region}a",
            "StartDate": begin,
            "EndDate": begin + datetime.timedelta(hours=hours),
            "CapacityBlockDurationHours": hours,
            "UpfrontFee": "0",
            "CurrencyCode": "USD",
            "Tenancy": "default",
        }
        kept.of(self.ec2_backend, _OFFERINGS)[offering["CapacityBlockOfferingId"]] = offering
        return ActionResult({"CapacityBlockOfferings": [offering]})

    def purchase_capacity_block(self) -> ActionResult:
        offering = kept.of(self.ec2_backend, _OFFERINGS).get(self._get_param("CapacityBlockOfferingId"))
        if offering is None:
            raise Ec2Error("InvalidCapacityBlockOfferingId.NotFound", "The Capacity Block offering does not exist.")
        self.error_on_dryrun()
        given = {key: offering[key] for key in ("AvailabilityZone", "StartDate", "EndDate")}
        given |= {"ReservationType": BLOCK, "EndDateType": "limited", "InstanceMatchCriteria": "targeted"}
        made = self._keep(offering["InstanceType"], offering["InstanceCount"], given)
        return ActionResult({"CapacityReservation": made})


def _aware(value: Any) -> Any:
    """A time of the request, in UTC; None stays None."""
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    return value.replace(tzinfo=datetime.UTC) if value is not None and value.tzinfo is None else value
