"""What instances are asked to do."""

from __future__ import annotations

import re
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import kept, placement
from localcloud.ec2.validation.ids import is_id
from localcloud.ec2.validation.model import invalid
from localcloud.validation.refusal import Refusal

Given = dict[str, Any]
_DEVICE = re.compile(r"(/dev/)?(sd|xvd|hd)[a-z]{1,2}\d{0,2}")


def named(backend: EC2Backend, given: Given) -> None:
    """One id that is not there ends the whole call, whose other instances go on as they were."""
    wanted = given.get("InstanceIds") or []
    if not wanted:
        raise Refusal("MissingParameter", "The request must contain the parameter InstanceId")
    for instance_id in wanted:
        if not is_id("i", instance_id):
            raise Refusal("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')


def terminate(backend: EC2Backend, given: Given) -> None:
    """A protected one keeps all of the call: nothing is ended before every instance may be."""
    for instance in backend.get_multi_instances_by_id(given["InstanceIds"]):
        if instance.disable_api_termination is True:
            raise Refusal(
                "OperationNotPermitted",
                f"The instance '{instance.id}' may not be terminated. Modify its 'disableApiTermination' instance "
                "attribute and try again.",
            )


def attach_volume(backend: EC2Backend, given: Given) -> None:
    device = str(given.get("Device") or "")
    if not _DEVICE.fullmatch(device):
        raise invalid("device", device, f"'{device}' is not a valid EBS device name.")


def topology(backend: EC2Backend, given: Given) -> None:
    ids, groups = given.get("InstanceIds") or [], given.get("GroupNames") or []
    if len(ids) > 100:
        raise Refusal("InvalidParameterValue", "instance-ids cannot contain over 100 values.")
    if len(groups) > 100:
        raise Refusal("InvalidParameterValue", "group-names cannot contain over 100 values.")
    for name in groups:
        if name not in kept.of(backend, placement.GROUPS):
            raise Refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
