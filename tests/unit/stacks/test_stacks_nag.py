"""cdk-nag's AwsSolutions rules on the examples and on what those leave out: no finding without a reason, and back."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from test_stacks_snapshot import EXAMPLES, ROOT, VARIANTS

FILES = [*EXAMPLES, *VARIANTS]
IMAGES = [EXAMPLES[0], *VARIANTS]
"""Clusters of which also the stack that builds their images."""

Findings = dict[str, dict[str, list[list[str]]]]


@pytest.fixture(scope="module")
def findings() -> Findings:
    images = [word for file in IMAGES for word in ("--images", str(file))]
    argv = [sys.executable, "tests/nag_app.py", *images, *map(str, FILES)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Findings = json.loads(done.stdout)
    return found


def test_every_finding_is_acknowledged_with_a_reason(findings: Findings) -> None:
    assert len(findings) == len(FILES) + len(IMAGES)
    assert {file: found["left"] for file, found in findings.items() if found["left"]} == {}


def test_no_acknowledgment_is_left_over(findings: Findings) -> None:
    """A row that nothing is found for would hide what is found there one day."""
    from synthesis import ACCOUNT

    from gpucluster.baking import builder
    from gpucluster.config import load
    from stacks.acknowledged import BUILDER_ROWS, rows

    for prefix, files, of in (("", FILES, lambda config: config), ("images of ", IMAGES, builder)):
        found, acknowledged = set(), set()
        for file in files:
            config = of(load(file))
            values = {"name": config.name, "region": config.region, "account": ACCOUNT}
            found |= {(path, finding) for path, finding in findings[f"{prefix}{file}"]["raw"]}
            ours = BUILDER_ROWS if prefix else rows(config)
            acknowledged |= {(row.path, row.finding.format_map(values)) for row in ours}
        assert found and acknowledged - found == set()


def test_every_reason_is_a_sentence() -> None:
    from stacks.acknowledged import BUILDER_ROWS, ROWS

    assert [row for row in ROWS + BUILDER_ROWS if len(row.reason.split()) < 5 or "*" in row.path] == []
