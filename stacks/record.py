"""What the stack keeps of its cluster file, so that the next deployment knows what it changes."""

from __future__ import annotations

import aws_cdk as cdk

from gpucluster import updates
from gpucluster.config import ClusterConfig


def keep(stack: cdk.Stack, config: ClusterConfig, *, availability_zone: str) -> None:
    """In the template's metadata: CloudFormation gives it back, and takes a change of it alone for none."""
    stack.template_options.metadata = updates.metadata(config, availability_zone=availability_zone)


def tell_policies(stack: cdk.Stack) -> None:
    """CloudFormation does not take a change of a resource's deletion policy alone for a change of the resource, and a
    change of its metadata it does: so the one is said in the other."""
    for construct in stack.node.find_all():
        if isinstance(construct, cdk.CfnResource):
            policy = construct.cfn_options.deletion_policy
            if policy in (cdk.CfnDeletionPolicy.RETAIN, cdk.CfnDeletionPolicy.SNAPSHOT):
                construct.add_metadata("DeletionPolicy", policy.value)
