"""Capacity reservations: recorded, matched by launches that name them, cancelled."""

from __future__ import annotations

import secrets
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response

from localcloud.ec2 import catalogue, kept
from localcloud.ec2.errors import Ec2Error

_RESERVATIONS = "capacity reservations"


def check_reservation(backend: EC2Backend, request: dict[str, Any], availability_zone: str) -> None:
    """A launch that targets a reservation must fit it."""
    target = (request.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    reservation_id = target.get("CapacityReservationId")
    if not reservation_id:
        return
    found = _get(backend, reservation_id)
    wanted = (request["InstanceType"], availability_zone)
    if found["State"] != "active" or (found["InstanceType"], found["AvailabilityZone"]) != wanted:
        raise Ec2Error(
            "ReservationCapacityExceeded",
            f"The capacity reservation {reservation_id} ({found['State']}, {found['InstanceType']} in "
            f"{found['AvailabilityZone']}) does not match the launch ({wanted[0]} in {wanted[1]}).",
        )
    used = sum(
        getattr(i, "capacity_reservation_id", None) == reservation_id and i.state not in ("terminated", "shutting-down")
        for i in backend.all_instances()
    )
    if used + int(request.get("MinCount") or 1) > found["TotalInstanceCount"]:
        raise Ec2Error("ReservationCapacityExceeded", "Your requested capacity exceeds your reservation's capacity.")


def _get(backend: EC2Backend, reservation_id: str) -> kept.Record:
    found = kept.of(backend, _RESERVATIONS).get(reservation_id)
    if found is None:
        raise Ec2Error(
            "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{reservation_id}' does not exist."
        )
    return found


class CapacityReservationActions(EC2Response):
    def create_capacity_reservation(self) -> ActionResult:
        instance_type, count = self._get_param("InstanceType"), int(self._get_param("InstanceCount") or 0)
        if not catalogue.exists(instance_type):
            raise Ec2Error("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
        if count < 1:
            raise Ec2Error("InvalidParameterValue", f"Value ({count}) for parameter instanceCount is invalid.")
        self.error_on_dryrun()
        reservation_id = f"cr-{secrets.token_hex(8)}0"
        prefix = f"arn:aws:ec2:{self.region}:{self.current_account}"
        record = {
            "CapacityReservationId": reservation_id,
            "CapacityReservationArn": f"{prefix}:capacity-reservation/{reservation_id}",
            "OwnerId": self.current_account,
            "InstanceType": instance_type,
            "InstancePlatform": self._get_param("InstancePlatform") or "Linux/UNIX",
            "AvailabilityZone": self._get_param("AvailabilityZone") or f"{self.region}a",
            "Tenancy": self._get_param("Tenancy") or "default",
            "TotalInstanceCount": count,
            "AvailableInstanceCount": count,
            "State": "active",
            "EndDateType": self._get_param("EndDateType") or "unlimited",
            "InstanceMatchCriteria": self._get_param("InstanceMatchCriteria") or "open",
            "PlacementGroupArn": self._get_param("PlacementGroupArn"),
            "CreateDate": utcnow(),
            "Tags": kept.tags(self, "capacity-reservation"),
        }
        kept.of(self.ec2_backend, _RESERVATIONS)[reservation_id] = record
        return ActionResult({"CapacityReservation": record})

    def describe_capacity_reservations(self) -> ActionResult:
        ids = self._get_param("CapacityReservationIds") or []
        records = [_get(self.ec2_backend, i) for i in ids] or list(kept.of(self.ec2_backend, _RESERVATIONS).values())
        return ActionResult({"CapacityReservations": kept.filtered(records, self._filters_from_querystring())})

    def cancel_capacity_reservation(self) -> ActionResult:
        record = _get(self.ec2_backend, self._get_param("CapacityReservationId"))
        self.error_on_dryrun()
        record |= {"State": "cancelled", "AvailableInstanceCount": 0}
        return ActionResult({"Return": True})
