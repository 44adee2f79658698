"""Checks a request against EC2's model: required members, values of enumerations, ranges, forms of names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from botocore.model import ListShape, Shape, StructureShape
from moto.core.utils import get_service_model

from localcloud.validation.constraints import form_of
from localcloud.validation.refusal import Refusal

# Their members are not checked here: EC2 stores a template's data unchecked, and CreateFleet reports errors later.
_UNSEEN = {"RequestLaunchTemplateData", "FleetLaunchTemplateConfigListRequest"}
# Values that are not in the model or have rules of their own.
_OPEN_ENUMS = {"InstanceType"}
_LONGEST_DESCRIPTION = 255
_LONGEST_TOKEN = 64  # https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
_CIDRS = {"CidrBlock", "DestinationCidrBlock", "CidrIp", "Ipv6CidrBlock", "DestinationIpv6CidrBlock", "CidrIpv6"}
# Ranges of MaxResults that only the API reference has. None: EC2 accepts more, but its pages have at most 1,000 items
# ("if the value is greater than 1,000, we return only 1,000 items").
_PAGES: dict[str, tuple[int, int | None]] = {
    "DescribeInstances": (5, 1000), "DescribeInstanceStatus": (5, 1000), "DescribeVolumes": (5, None),
    "DescribeSnapshots": (5, None), "DescribeTags": (5, 1000), "DescribeSpotInstanceRequests": (5, 1000),
    "DescribeHosts": (5, 500), "DescribeVpcEndpoints": (1, None), "DescribeVpcEndpointServices": (1, None),
    "DescribeFlowLogs": (1, 1000), "DescribeLaunchTemplateVersions": (1, 200), "DescribeVolumeStatus": (5, None),
    "DescribeSpotPriceHistory": (1, 1000), "DescribePrefixLists": (1, None), "DescribeImages": (1, 1000),
}  # fmt: skip


@lru_cache(maxsize=1024)
def shape_of(action: str) -> StructureShape | None:
    shape = get_service_model("ec2").operation_model(action).input_shape
    return shape if isinstance(shape, StructureShape) else None


def check(action: str, parameters: dict[str, Any]) -> None:
    shape = shape_of(action)
    if shape is None:
        return
    least_most = _PAGES.get(action)
    if least_most and parameters.get("MaxResults") is not None:
        _within("MaxResults", parameters["MaxResults"], *least_most)
    for found in _refusals(shape, parameters, ""):
        raise Refusal("InvalidAMIName.Malformed", found.message) if _is_image_name(action, found) else found


def _is_image_name(action: str, found: Refusal) -> bool:
    return action in ("CreateImage", "CopyImage", "RegisterImage") and "for parameter name " in found.message


def _refusals(shape: Shape, value: Any, name: str) -> Iterator[Refusal]:
    if shape.name in _UNSEEN:
        return
    if isinstance(shape, StructureShape):
        yield from _structure(shape, value)
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for inner in value:
            yield from _refusals(shape.member, inner, name)
    elif isinstance(value, str):
        yield from _text(shape, value, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _within(name, value, shape.metadata.get("min"), shape.metadata.get("max"))


def _structure(shape: StructureShape, value: Any) -> Iterator[Refusal]:
    if not isinstance(value, dict):
        return
    for member in shape.required_members:
        if value.get(member) in (None, "", [], {}):
            yield Refusal("MissingParameter", f"The request must contain the parameter {member}")
    members = shape.members
    for member, inner in value.items():
        if inner is not None and member in members:
            yield from _refusals(members[member], inner, member)


def _text(shape: Shape, value: str, name: str) -> Iterator[Refusal]:
    allowed = shape.metadata.get("enum")
    if allowed and shape.name not in _OPEN_ENUMS and value.lower() not in {each.lower() for each in allowed}:
        yield invalid(name, value, f"Allowed values: {', '.join(allowed)}.")
    fits = form_of(shape.metadata.get("pattern"))
    if fits is not None and not fits(value):
        yield invalid(name, value, f"It must match the pattern {shape.metadata['pattern']}.")
    most, least = shape.metadata.get("max"), shape.metadata.get("min")
    if (most and len(value) > int(most)) or (least and len(value) < int(least)):
        yield invalid(name, value, f"Its length must be between {least or 0} and {most}.")
    if name == "Description" and len(value) > _LONGEST_DESCRIPTION:
        yield invalid(name, value, f"It can have at most {_LONGEST_DESCRIPTION} characters.")
    if name == "ClientToken" and (len(value) > _LONGEST_TOKEN or not value.isascii()):
        yield invalid(name, value, f"It can have at most {_LONGEST_TOKEN} ASCII characters.")
    if name in _CIDRS and not _is_cidr(value):
        yield invalid(name, value, "This is not a valid CIDR block.")


def _within(name: str, value: float, least: Any, most: Any) -> None:
    if least is not None and value < float(least):
        raise invalid(name, value, f"Expecting a value greater than or equal to {least}.")
    if most is not None and value > float(most):
        raise invalid(name, value, f"Expecting a value less than or equal to {most}.")


def invalid(name: str, value: object, why: str = "", code: str = "InvalidParameterValue") -> Refusal:
    return Refusal(code, f"Value ({value}) for parameter {name[:1].lower()}{name[1:]} is invalid. {why}".rstrip())


def _is_cidr(value: str) -> bool:
    """EC2 accepts host bits and clears them."""
    if not re.fullmatch(r"[0-9a-fA-F.:]+/\d{1,3}", value):
        return False
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return True
