"""Findings of cdk-nag's AwsSolutions rules: `python tests/nag_app.py [--images FILE] FILE...`, JSON on stdout.

{file: {"left": findings, "raw": findings}}; a finding is [construct path in the stack, rule]. `left` does not contain
those that the stacks acknowledge. Keys of the stacks that build images begin with `images of `. This is a separate
program because the rules run in CDK's engine, which the other tests start without them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aws_cdk as cdk

    from gpucluster.config import ClusterConfig

ROOT = Path(__file__).resolve().parents[1]


def findings(file: Path, *, builder: bool) -> list[list[str]]:
    import cdk_nag
    from synthesis import lookups

    from gpucluster import config
    from stacks.cluster import cdk

    cluster = config.load(file)
    with TemporaryDirectory() as folder:
        app = cdk.App(context=lookups(cluster.region), outdir=folder)
        (image_builder if builder else gpu_cluster)(app, cluster)
        cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
        with contextlib.suppress(RuntimeError):  # findings are no error here
            app.synth()
        report = Path(folder, "validation-report.json")
        plugins = json.loads(report.read_text())["pluginReports"] if report.exists() else []
    return [
        [construct["constructPath"].partition("/")[2], violation["ruleName"].removeprefix("AwsSolutions-")]
        for plugin in plugins
        if plugin["pluginName"] == "AwsSolutions"
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


def gpu_cluster(app: cdk.App, config: ClusterConfig) -> None:
    from synthesis import ACCOUNT

    from stacks.cluster import GpuCluster

    GpuCluster(app, config.name, config=config, account=ACCOUNT)


def image_builder(app: cdk.App, cluster: ClusterConfig) -> None:
    from synthesis import ACCOUNT

    from gpucluster.baking import builder
    from gpucluster.hardware.instances import INSTANCE_TYPES
    from stacks.builder import ImageBuilder

    config, machine = builder(cluster), INSTANCE_TYPES[cluster.head_node.instance_type]
    ImageBuilder(app, config.name, config=config, account=ACCOUNT, base="dlami-ubuntu-24.04", machine=machine)


def both(file: Path, *, builder: bool) -> dict[str, list[list[str]]]:
    from stacks import builder as builders
    from stacks import cluster as clusters

    left = findings(file, builder=builder)
    acknowledge = clusters.acknowledge
    builders.acknowledge = clusters.acknowledge = lambda *_: None
    try:
        return {"left": left, "raw": findings(file, builder=builder)}
    finally:
        builders.acknowledge = clusters.acknowledge = acknowledge


def main() -> None:
    os.environ["CDK_VALIDATION"] = "false"  # CDK's own rules, which another test runs
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", action="append", default=[])
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    found = {file: both(Path(file), builder=False) for file in options.files}
    found |= {f"images of {file}": both(Path(file), builder=True) for file in options.images}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
