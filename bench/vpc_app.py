"""What synthesis costs as soon as anything of EC2 is in it: a CDK app whose only resource is a VPC."""

from __future__ import annotations

import stacks  # noqa: F401  before aws_cdk: it says which Node.js to run

# isort: split
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

app = cdk.App()
ec2.Vpc(cdk.Stack(app, "Vpc"), "Vpc")
app.synth()
