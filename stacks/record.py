"""Keeps the cluster file in the stack, so that the next deployment knows what it changes."""

from __future__ import annotations

import aws_cdk as cdk

from gpucluster import updates
from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS
from gpucluster.layout import Layout
from gpucluster.updates import LookedUp
from stacks.images import image_id


def keep(stack: cdk.Stack, layout: Layout, *, availability_zone: str, head_replacements: int) -> None:
    """In the template's metadata. CloudFormation returns it, and does not count a change of it alone as a change."""
    config = layout.config
    used = {config.software.image, layout.head_image, *(partition.image for partition in layout.partitions)}
    images = {name: _looked_up(stack, name) for name in PUBLIC_PARAMETERS if name in used}
    stack.template_options.metadata = updates.metadata(
        config, availability_zone=availability_zone, images=images, head_replacements=head_replacements
    )


def _looked_up(stack: cdk.Stack, name: str) -> LookedUp:
    """CDK's key for the lookup of a parameter."""
    key = f"ssm:account={stack.account}:parameterName={PUBLIC_PARAMETERS[name]}:region={stack.region}"
    return LookedUp(key, image_id(stack, name))
