"""CDK entry point: `cdk deploy GpuCluster`, `cdk -c config=FILE …`, or `CDK_OUTDIR=DIR python app.py`."""

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
