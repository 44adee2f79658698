"""The floor of synthesis: a CDK app with one empty stack."""

from __future__ import annotations

import stacks  # noqa: F401  before aws_cdk: it says which Node.js to run

# isort: split
import aws_cdk as cdk

app = cdk.App()
cdk.Stack(app, "Empty")
app.synth()
