"""Rules for actions on existing instances."""

from __future__ import annotations

import re
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import kept, placement
from localcloud.ec2.validation.ids import is_id
from localcloud.ec2.validation.model import invalid
from localcloud.validation.refusal import Refusal

Given = dict[str, Any]
_IMAGE_NAME = re.compile(r"[a-zA-Z0-9()\[\] ./\-'@_]{3,128}")
_DEVICE = re.compile(r"(/dev/)?(sd|xvd|hd)[a-z]{1,2}\d{0,2}")


def named(backend: EC2Backend, given: Given) -> None:
    """One invalid id makes the whole call fail; the other instances are not changed."""
    wanted = given.get("InstanceIds") or []
    if not wanted:
        raise Refusal("MissingParameter", "The request must contain the parameter InstanceId")
    for instance_id in wanted:
        if not is_id("i", instance_id):
            raise Refusal("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')


def terminate(backend: EC2Backend, given: Given) -> None:
    """One protected instance makes the whole call fail; no instance is terminated."""
    for instance in backend.get_multi_instances_by_id(given["InstanceIds"]):
        if instance.disable_api_termination is True:
            raise Refusal(
                "OperationNotPermitted",
                f"The instance '{instance.id}' may not be terminated. Modify its 'disableApiTermination' instance "
                "attribute and try again.",
            )


def stop(backend: EC2Backend, given: Given) -> None:
    if given.get("Hibernate"):
        raise Refusal(
            "UnsupportedHibernationConfiguration",
            f"The instance '{given['InstanceIds'][0]}' hasn't been configured for hibernation.",
        )


def image_name(backend: EC2Backend, given: Given) -> None:
    if not _IMAGE_NAME.fullmatch(str(given.get("Name") or "")):
        raise Refusal(
            "InvalidAMIName.Malformed",
            "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', '.', "
            "'-', '/' and '_'",
        )


def metadata(backend: EC2Backend, given: Given) -> None:
    hops = given.get("HttpPutResponseHopLimit")
    if hops is not None and not 1 <= int(hops) <= 64:
        raise invalid("httpPutResponseHopLimit", hops, "It must be between 1 and 64.")
    if backend.get_instance(str(given["InstanceId"])).state in ("terminated", "shutting-down"):
        raise Refusal("IncorrectInstanceState", f"The instance '{given['InstanceId']}' is not running or stopped.")


def not_terminated(backend: EC2Backend, given: Given) -> None:
    if backend.get_instance(str(given["InstanceId"])).state in ("terminated", "shutting-down"):
        raise Refusal(
            "IncorrectInstanceState", f"The instance '{given['InstanceId']}' is not in a valid state for this operation"
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
