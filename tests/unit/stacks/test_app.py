"""app.py, as the CDK command line runs it, and the app of docs/account.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_mistakes_in_the_file_are_reported_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("name: a\nregion: us-east-1\npartitions: []\n")
    environment = {**os.environ, "GPUCLUSTER_CONFIG": str(file)}
    ran = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"{file}:3:13: error: partitions: must have at least one entry")


def test_an_app_of_your_own_tags_the_stacks_resources_but_not_its_nodes(tmp_path: Path) -> None:
    shutil.copy(ROOT / "cluster.yaml", tmp_path)
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs/account.md").read_text(), re.DOTALL)
    assert len(shown) == 1
    program = shown[0].replace("app.synth()", 'cdk.Tags.of(stack).add("team", "vision")\napp.synth()')
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CDK_OUTDIR": str(tmp_path / "out"),
        "CDK_CONTEXT_JSON": (ROOT / "cdk.context.json").read_text(),
        "CDK_VALIDATION": "false",
    }
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)
    resources = json.loads((tmp_path / "out/GpuCluster.template.json").read_text())["Resources"].values()
    tags = [each["Properties"].get("Tags", []) for each in resources if each["Type"] == "AWS::EC2::VPC"]
    assert [{tag["Key"]: tag["Value"] for tag in each}["team"] for each in tags] == ["vision"]
    templates = [each["Properties"] for each in resources if each["Type"] == "AWS::EC2::LaunchTemplate"]
    assert templates
    for each in templates:
        assert '"team"' not in json.dumps(each["LaunchTemplateData"]), "docs/account.md says that nodes lack them"
