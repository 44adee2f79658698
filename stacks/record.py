"""What the stack keeps of its cluster file, so that the next deployment knows what it changes."""

from __future__ import annotations

import aws_cdk as cdk

from gpucluster import updates
from gpucluster.config import ClusterConfig


def keep(stack: cdk.Stack, config: ClusterConfig, *, availability_zone: str) -> None:
    """In the template's metadata: CloudFormation gives it back, and takes a change of it alone for none."""
    stack.template_options.metadata = updates.metadata(config, availability_zone=availability_zone)
