"""Synthesized stacks, each once: starting CDK's engine costs seconds."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "123456789012"
AMI = "ami-0123456789abcdef0"

Template = dict[str, Any]


def lookups(region: str) -> dict[str, Any]:
    """What the CDK command line would have found out and kept in cdk.context.json."""
    from gpucluster.config.checks.online.images import PUBLIC_PARAMETERS

    images = {f"ssm:account={ACCOUNT}:parameterName={name}:region={region}": AMI for name in PUBLIC_PARAMETERS.values()}
    zones = {f"availability-zones:account={ACCOUNT}:region={region}": [f"{region}{letter}" for letter in "abcdef"]}
    return {**images, **zones}


@cache
def synthesize(text: str) -> Template:
    os.environ["CDK_VALIDATION"] = "false"  # 5 CPU seconds; one validated synthesis is part of `make check`
    from gpucluster import config
    from stacks.cluster import GpuCluster, cdk

    cluster = config.loads(text)
    with TemporaryDirectory() as folder:
        app = cdk.App(context=lookups(cluster.region), outdir=folder)
        GpuCluster(app, cluster.name, config=cluster, account=ACCOUNT)
        app.synth()
        template: Template = json.loads(Path(folder, f"{cluster.name}.template.json").read_text())
    return template
