"""CDK entry point: `cdk deploy GpuCluster`, `cdk -c config=FILE …`, or `CDK_OUTDIR=DIR python app.py`.

`cdk -c training=REGION deploy GpuClusterTraining` makes a role and a bucket for SageMaker, and no cluster.
"""

# ruff: noqa: E402
from __future__ import annotations

import atexit
import gc
import os
import sys
from pathlib import Path

# A synthesis makes many objects and little garbage: looking for it, and once more at exit, takes a sixth of the time.
gc.disable()
atexit.register(gc.freeze)
# pydantic would read every installed distribution to look for plug-ins, and there are none to find.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# isort: split
import stacks  # noqa: F401  before aws_cdk: it says which Node.js to run

# isort: split
import aws_cdk as cdk

from gpucluster import config
from gpucluster.baking import builder
from gpucluster.errors import ConfigError
from gpucluster.hardware.instances import INSTANCE_TYPES
from stacks import placeholders
from stacks.cluster import GpuCluster

app = cdk.App()
if region := app.node.try_get_context("training"):
    from stacks.training import Training

    reads = (app.node.try_get_context("reads") or "").split()
    if wrong := [each for each in reads if not each.startswith("s3://")]:
        sys.exit(
            f"error: -c reads: must be addresses such as s3://bucket/prefix, with blanks between, got {wrong[0]!r}"
        )
    vpc = app.node.try_get_context("vpc") == "yes"
    Training(app, region=region, account=os.environ.get("CDK_DEFAULT_ACCOUNT"), reads=reads, vpc=vpc)
    app.synth()
    sys.exit()
file = app.node.try_get_context("config") or os.environ.get("GPUCLUSTER_CONFIG") or "cluster.yaml"
try:
    cluster = config.load(Path(file))
except ConfigError as problems:
    sys.exit(str(problems))
account = os.environ.get("CDK_DEFAULT_ACCOUNT")
if account is None:
    for key, value in placeholders.context(cluster).items():
        app.node.set_context(key, value)
    print(f"warning: {placeholders.NOTE}", file=sys.stderr)
if base := app.node.try_get_context("bake"):
    from stacks.builder import ImageBuilder

    machine = INSTANCE_TYPES[app.node.try_get_context("bake-on")]
    ImageBuilder(app, builder(cluster).name, config=builder(cluster), account=account, base=base, machine=machine)
else:
    GpuCluster(app, cluster.name, config=cluster, account=account)
app.synth()
