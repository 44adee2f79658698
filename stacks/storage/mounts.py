"""What the kinds of storage share: names, tags, the parameter that nodes read, and a network that stays with data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpucluster.config import construct_ids
from gpucluster.config.storage import Storage
from stacks.context import Context
from stacks.network import Network


def announce(context: Context, storage: Storage, known: Mapping[str, Any]) -> None:
    """What a node needs to mount it. SSM takes 4 KB."""
    value = {"type": storage.type, "mount": storage.mount, **known}
    context.parameters.add(f"Storage{construct_ids.of_mount(storage.mount)}", storage.parameter, value)


def tag(scope: Construct, context: Context, name: str) -> None:
    """Everything in `scope` that has tags."""
    cdk.Tags.of(scope).add("Name", f"{context.config.name}{name.replace('/', '-')}")
    cdk.Tags.of(scope).add("gpucluster:cluster", context.config.name)


def deletion_policy(*, retain: bool) -> cdk.CfnDeletionPolicy:
    """What a deployment has made that fails goes in either case: nobody has put anything there."""
    return cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE if retain else cdk.CfnDeletionPolicy.DELETE


def keep_network(network: Network) -> None:
    """When the stack goes, its VPC and the nodes' subnet stay. A network that was there before stays anyway."""
    for construct in (network.vpc, network.subnet):
        made = construct.node.default_child
        if isinstance(made, cdk.CfnResource):
            made.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
