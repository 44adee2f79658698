"""Placement groups, and the action of the network topology; moto lacks both."""

from __future__ import annotations

import secrets
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response

from localcloud.ec2 import kept, topology
from localcloud.ec2.errors import Ec2Error

STRATEGIES = ("cluster", "partition", "spread")
GROUPS = "placement groups"


def group_name(backend: EC2Backend, wanted: dict[str, Any]) -> str:
    """The name of the placement group that a Placement names by name or by id; "" for none."""
    for group in kept.of(backend, GROUPS).values():
        if wanted.get("GroupId") == group["GroupId"]:
            return str(group["GroupName"])
    return str(wanted.get("GroupName") or "")


def check(backend: EC2Backend, wanted: dict[str, Any], availability_zone: str) -> None:
    name = group_name(backend, wanted)
    if (name or wanted.get("GroupId")) and name not in kept.of(backend, GROUPS):
        raise _unknown(name or wanted["GroupId"])
    zone = wanted.get("AvailabilityZone")
    if zone and zone != availability_zone:
        raise Ec2Error(
            "InvalidParameterValue",
            f"The requested Availability Zone {zone} does not match the subnet's ({availability_zone})",
        )


def _unknown(name: str) -> Ec2Error:
    return Ec2Error("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")


class PlacementActions(EC2Response):
    def create_placement_group(self) -> ActionResult:
        groups = kept.of(self.ec2_backend, GROUPS)
        name = self._get_param("GroupName") or f"pg-{secrets.token_hex(8)}"
        strategy = self._get_param("Strategy") or "cluster"
        if name in groups:
            raise Ec2Error("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        if strategy not in STRATEGIES:
            raise Ec2Error("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
        self.error_on_dryrun()
        group_id = f"pg-{secrets.token_hex(8)}0"
        groups[name] = {
            "GroupName": name,
            "GroupId": group_id,
            "State": "available",
            "Strategy": strategy,
            "PartitionCount": self._get_param("PartitionCount"),
            "SpreadLevel": self._get_param("SpreadLevel"),
            "GroupArn": f"arn:aws:ec2:{self.region}:{self.current_account}:placement-group/{name}",
            "Tags": kept.tags(self, "placement-group"),
        }
        return ActionResult({"PlacementGroup": groups[name]})

    def describe_placement_groups(self) -> ActionResult:
        names, ids = self._get_param("GroupNames") or [], self._get_param("GroupIds") or []
        groups = kept.of(self.ec2_backend, GROUPS)
        for name in names:
            if name not in groups:
                raise _unknown(name)
        found = [
            g for g in groups.values() if (not names or g["GroupName"] in names) and (not ids or g["GroupId"] in ids)
        ]
        return ActionResult({"PlacementGroups": kept.filtered(found, self._filters_from_querystring())})

    def delete_placement_group(self) -> EmptyResult:
        name = self._get_param("GroupName")
        groups = kept.of(self.ec2_backend, GROUPS)
        if name not in groups:
            raise _unknown(name)
        living = ("pending", "running", "shutting-down", "stopping", "stopped")
        if any(i.placement.group_name == name and i.state in living for i in self.ec2_backend.all_instances()):
            raise Ec2Error(
                "InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use and may not be deleted."
            )
        self.error_on_dryrun()
        del groups[name]
        return EmptyResult()

    def describe_instance_topology(self) -> ActionResult:
        ids, names = self._get_param("InstanceIds") or [], self._get_param("GroupNames") or []
        found = [
            topology.described(self.ec2_backend, instance)
            for instance in self.ec2_backend.all_instances()
            if (not ids or instance.id in ids) and (not names or instance.placement.group_name in names)
        ]
        filters = self._filters_from_querystring()
        return ActionResult({"Instances": [each for each in found if topology.matches(each, filters)]})
