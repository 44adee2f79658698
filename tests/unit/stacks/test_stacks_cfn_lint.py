"""The templates of the examples under cfn-lint, and the default cluster's under CDK's own validator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from test_stacks_snapshot import EXAMPLES, ROOT, VARIANTS

IGNORED = [
    "W3005",  # CDK spells out dependencies that a reference implies already
    "E3691",  # RDS takes a major version and chooses the minor one, which it raises later
    "W3010",  # the availability zone is the cluster file's, or pinned by cdk.context.json
]


def test_cfn_lint_has_nothing_to_say(tmp_path: Path, template_of: Callable[[str], dict[str, Any]]) -> None:
    """The findings of the examples, and of what they leave out."""
    templates = [tmp_path / f"{file.stem}.json" for file in (*EXAMPLES, *VARIANTS)]
    for file, written in zip((*EXAMPLES, *VARIANTS), templates, strict=True):
        written.write_text(json.dumps(template_of(file.read_text())))
    program = Path(sys.executable).with_name("cfn-lint")
    done = subprocess.run(
        [program, "--ignore-checks", *IGNORED, "--", *templates], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_cdk_validates_the_default_cluster(tmp_path: Path) -> None:
    """Through app.py as it stands: with what was looked up, and without the command line."""
    environment = {
        **os.environ,
        "CDK_OUTDIR": str(tmp_path),
        "CDK_DEFAULT_ACCOUNT": "123456789012",
        "CDK_CONTEXT_JSON": json.dumps(json.loads((ROOT / "cdk.context.json").read_text())),
    }
    for switch in ("CDK_VALIDATION", "GPUCLUSTER_CONFIG"):
        environment.pop(switch, None)
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "GpuCluster.template.json").read_text()
    assert "\n" not in written.strip()  # blanks count against CloudFormation's limit
    assert "WARNING" not in done.stdout + done.stderr and "ERROR" not in done.stdout + done.stderr
