"""What cdk-nag's AwsSolutions rules find in cluster files: `python tests/nag_app.py [--raw] FILE...`, JSON on stdout.

{file: [[construct path in the stack, finding], …]}. With --raw also what the stack acknowledges. A program of its own:
the rules run in CDK's engine, which the other tests start without them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]


def findings(file: Path) -> list[list[str]]:
    import cdk_nag
    from synthesis import ACCOUNT, lookups

    from gpucluster import config
    from stacks.cluster import GpuCluster, cdk

    cluster = config.load(file)
    with TemporaryDirectory() as folder:
        app = cdk.App(context=lookups(cluster.region), outdir=folder)
        GpuCluster(app, cluster.name, config=cluster, account=ACCOUNT)
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


def main() -> None:
    os.environ["CDK_VALIDATION"] = "true"
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]
    files = sys.argv[1:]
    if files[0] == "--raw":
        from stacks import cluster

        cluster.acknowledge = lambda *_: None
        files = files[1:]
    print(json.dumps({file: findings(Path(file)) for file in files}))


if __name__ == "__main__":
    main()
