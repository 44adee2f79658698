"""What cdk-nag's AwsSolutions rules find: `python tests/nag_app.py [--raw] [--builder] FILE...`, JSON on stdout.

{file: [[construct path in the stack, finding], …]} of the clusters, or of the stacks that build their images. With
--raw also what the stacks acknowledge. A program of its own: the rules run in CDK's engine, which the other tests start
without them.
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
        with contextlib.suppress(RuntimeError):  # that there are findings is no error here
            app.synth()
        report = json.loads(Path(folder, "validation-report.json").read_text())
    return [
        [construct["constructPath"].partition("/")[2], violation["ruleName"].removeprefix("AwsSolutions-")]
        for plugin in report["pluginReports"]
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
    from gpucluster.instances import INSTANCE_TYPES
    from stacks.builder import ImageBuilder

    config, machine = builder(cluster), INSTANCE_TYPES[cluster.head_node.instance_type]
    ImageBuilder(app, config.name, config=config, account=ACCOUNT, base="dlami-ubuntu-24.04", machine=machine)


def main() -> None:
    os.environ["CDK_VALIDATION"] = "true"
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]
    parser = argparse.ArgumentParser()
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--builder", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    if options.raw:
        from stacks import builder, cluster

        builder.acknowledge = cluster.acknowledge = lambda *_: None
    print(json.dumps({file: findings(Path(file), builder=options.builder) for file in options.files}))


if __name__ == "__main__":
    main()
