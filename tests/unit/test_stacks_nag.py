"""cdk-nag's AwsSolutions rules on the examples and on what those leave out: no finding without a reason, and back."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from test_stacks_snapshot import EXAMPLES, ROOT, VARIANTS

FILES = [*EXAMPLES, *VARIANTS]
IMAGES = [EXAMPLES[0], *VARIANTS]
"""Of these also the stack that builds their images."""

Findings = dict[str, list[list[str]]]


@cache
def findings(*options: str) -> Findings:
    files = IMAGES if "--builder" in options else FILES
    argv = [sys.executable, "tests/nag_app.py", *options, *map(str, files)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Findings = json.loads(done.stdout)
    return found


@pytest.mark.timeout(400)
def test_every_finding_is_acknowledged_with_a_reason() -> None:
    assert findings() == {str(file): [] for file in FILES}
    assert findings("--builder") == {str(file): [] for file in IMAGES}


@pytest.mark.timeout(400)
def test_no_acknowledgment_is_left_over() -> None:
    """A row that nothing is found for would hide what is found there one day."""
    from synthesis import ACCOUNT

    from gpucluster.baking import builder
    from gpucluster.config import load
    from stacks.acknowledged import BUILDER_ROWS, rows

    for options, rows_of in (("--raw",), rows), (("--raw", "--builder"), lambda _: BUILDER_ROWS):
        found, acknowledged = set(), set()
        for file, raw in findings(*options).items():
            config = load(Path(file))
            if "--builder" in options:
                config = builder(config)
            values = {"name": config.name, "region": config.region, "account": ACCOUNT}
            found |= {(path, finding) for path, finding in raw}
            acknowledged |= {(row.path, row.finding.format_map(values)) for row in rows_of(config)}
        assert acknowledged - found == set()


def test_every_reason_is_one() -> None:
    from stacks.acknowledged import BUILDER_ROWS, ROWS

    assert [row for row in ROWS + BUILDER_ROWS if len(row.reason.split()) < 5 or "*" in row.path] == []
