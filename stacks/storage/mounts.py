"""What the kinds of storage share: names, tags, the parameter that nodes read, and a network that is retained with
data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpucluster.config import construct_ids
from gpucluster.config.storage import Storage
from stacks import deletion
from stacks.context import Context
from stacks.network import Network


def announce(context: Context, storage: Storage, known: Mapping[str, Any]) -> None:
    """What a node needs to mount it. An SSM parameter has at most 4 KB."""
    value = {"type": storage.type, "mount": storage.mount, **known}
    context.parameters.add(f"Storage{construct_ids.of_mount(storage.mount)}", storage.parameter, value)


def tag(scope: Construct, context: Context, name: str) -> None:
    """Tags everything in `scope` that can have tags."""
    cdk.Tags.of(scope).add("Name", f"{context.config.name}{name.replace('/', '-')}")
    cdk.Tags.of(scope).add("gpucluster:cluster", context.config.name)


def deletion_policy(*, retain: bool) -> cdk.CfnDeletionPolicy:
    return deletion.STAYS if retain else cdk.CfnDeletionPolicy.DELETE


def keep_network(network: Network) -> None:
    """Retains the VPC and the nodes' subnet when the stack is deleted. An existing network stays anyway."""
    for construct in (network.vpc, network.subnet):
        deletion.retain(construct)
