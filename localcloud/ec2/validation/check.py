"""Checks an EC2 request after moto has parsed it and before anything acts on it."""

from __future__ import annotations

from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models import EC2Backend

from localcloud.ec2.validation import filters, ids, model, tags
from localcloud.ec2.validation.rules import RULES
from localcloud.validation import combinations
from localcloud.validation.refusal import Refusal

# "You cannot specify this parameter and the … IDs parameter in the same request": botocore's model of MaxResults; for
# volumes and snapshots an earlier version of the API reference. No page says this about other actions.
_NOT_BOTH = {
    "DescribeInstances": "InstanceIds", "DescribeInstanceStatus": "InstanceIds", "DescribeVolumes": "VolumeIds",
    "DescribeSnapshots": "SnapshotIds", "DescribeNetworkInterfaces": "NetworkInterfaceIds",
    "DescribeInstanceTopology": "InstanceIds",
}  # fmt: skip


def check(backend: EC2Backend, action: str, parameters: dict[str, Any]) -> None:
    """Raises a Refusal."""
    model.check(action, parameters)
    _check_pages(action, parameters)
    filters.check(action, parameters)
    tags.check(backend, action, parameters)
    combinations.check("ec2", action, parameters)
    ids.check(backend, action, parameters)
    try:
        for rule in RULES.get(action, ()):
            rule(backend, parameters)
    except ServiceException as error:  # moto's error for an id that a rule looked up
        raise Refusal(str(error.code), str(error.message)) from None


def _check_pages(action: str, parameters: dict[str, Any]) -> None:
    named = _NOT_BOTH.get(action)
    if named and parameters.get(named) and parameters.get("MaxResults") is not None:
        raise Refusal(
            "InvalidParameterCombination",
            f"The parameter {named[:1].lower()}{named[1:]} cannot be used with the parameter maxResults",
        )
