"""Deletion policies: which resources stay when they leave the stack.

CloudFormation ignores a change of only a resource's deletion policy, but not a change of its metadata. So the metadata
repeats the policy.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

STAYS = cdk.CfnDeletionPolicy.RETAIN_EXCEPT_ON_CREATE
"""A deployment that fails still deletes what it created: nobody has put anything there."""


def set_policy(resource: cdk.CfnResource, policy: cdk.CfnDeletionPolicy) -> None:
    resource.cfn_options.deletion_policy = policy
    if policy in (STAYS, cdk.CfnDeletionPolicy.SNAPSHOT):
        _repeat(resource, policy)


def retain(construct: IConstruct) -> None:
    """Also when an update replaces it. Resources of others stay anyway."""
    resource = construct if isinstance(construct, cdk.CfnResource) else construct.node.default_child
    if isinstance(resource, cdk.CfnResource):
        resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        _repeat(resource, STAYS)


def _repeat(resource: cdk.CfnResource, policy: cdk.CfnDeletionPolicy) -> None:
    resource.add_metadata("DeletionPolicy", policy.value)
