"""The entry of cdk.context.json for the EC2 Instance Connect Endpoint that an existing VPC already has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpucluster.config.models import ClusterConfig


class Door(NamedTuple):
    endpoint_id: str
    group_id: str
    """The security group from which it connects."""


def key(config: ClusterConfig, account: str) -> str:
    return f"gpucluster-connect:account={account}:cluster={config.name}:vpc={config.network.vpc_id}"


def pinned(entries: Mapping[str, Any], config: ClusterConfig, account: str) -> Door | None:
    """None if the file names an endpoint, or if the stack makes one."""
    found = entries.get(key(config, account))
    return Door(*found) if found and config.network.vpc_id and not config.network.connect_endpoint_id else None
