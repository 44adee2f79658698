"""Findings of cdk-nag's AwsSolutions rules: `python tests/nag_app.py [--training] [--images FILE] FILE...`, as JSON.

{file: {"left": findings, "raw": findings}}; a finding is [construct path in the stack, rule]. `left` does not contain
those that the stacks acknowledge. Keys of the stacks that build images begin with `images of `; that of the stack for
SageMaker is `training`. This is a separate
program because the rules run in CDK's engine, which the other tests start without them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aws_cdk as cdk

    from gpucluster.config import ClusterConfig

ROOT = Path(__file__).resolve().parents[1]
TRAINING_REGION, READS = "us-west-2", ("s3://data/imagenet", "s3://whole")


def findings(make: Callable[[cdk.App], object], region: str) -> list[list[str]]:
    import cdk_nag
    from synthesis import lookups

    from stacks.cluster import cdk

    with TemporaryDirectory() as folder:
        app = cdk.App(context=lookups(region), outdir=folder)
        make(app)
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


def training(app: cdk.App) -> None:
    from synthesis import ACCOUNT

    from stacks.training import Training

    Training(app, region=TRAINING_REGION, account=ACCOUNT, reads=READS, vpc=True)


def of_file(name: str, *, builder: bool) -> dict[str, list[list[str]]]:
    from gpucluster import config

    cluster = config.load(Path(name))
    return both(lambda app: (image_builder if builder else gpu_cluster)(app, cluster), cluster.region)


def both(make: Callable[[cdk.App], object], region: str) -> dict[str, list[list[str]]]:
    from stacks import builder as builders
    from stacks import cluster as clusters
    from stacks import training as trainings

    left, own = findings(make, region), clusters.acknowledge
    builders.acknowledge = clusters.acknowledge = trainings.acknowledge = lambda *_: None
    try:
        return {"left": left, "raw": findings(make, region)}
    finally:
        builders.acknowledge = clusters.acknowledge = trainings.acknowledge = own


def main() -> None:
    os.environ["CDK_VALIDATION"] = "false"  # CDK's own rules, which another test runs
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", action="append", default=[])
    parser.add_argument("--training", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    found = {file: of_file(file, builder=False) for file in options.files}
    found |= {f"images of {file}": of_file(file, builder=True) for file in options.images}
    if options.training:
        found["training"] = both(training, TRAINING_REGION)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
