"""The state that AWS returns for a new resource; the next describe call shows it ready."""

from __future__ import annotations

import copy
from typing import Any

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/: each action's example answer
_FIRST = {
    "CreateVpc": ("Vpc", "pending"),
    "CreateNatGateway": ("NatGateway", "pending"),
    "CreateVolume": ("", "creating"),
    "CreateSnapshot": ("", "pending"),
    "CreateVpcEndpoint": ("VpcEndpoint", "pending"),
    "CreateInstanceConnectEndpoint": ("InstanceConnectEndpoint", "create-in-progress"),
}


def shown(action: str, result: Any) -> Any:
    """The answer of `action`, without a change to the resource itself."""
    if action not in _FIRST or isinstance(result, Exception):
        return result
    member, state = _FIRST[action]
    if not member:
        return _in_state(result, state)
    if getattr(result[member], "vpc_endpoint_type", None) == "Gateway":
        return result
    return result | {member: _in_state(result[member], state)}


def _in_state(made: Any, state: str) -> Any:
    if isinstance(made, dict):
        return made | {"State": state}
    told = copy.copy(made)
    told.__dict__.pop("state", None)
    told.__class__ = type(type(made).__name__, (type(made),), {"state": state})
    return told
