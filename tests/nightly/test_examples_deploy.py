"""All examples but the two of tests/cloud/test_examples.py: deployed, changed and destroyed. Nothing boots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cloud.conftest import bootstrapped
from tests.cloud.test_examples import BY_COMMAND_LINE, deployed_changed_and_destroyed

SUBJECTS = [
    "examples/*.yaml",
    "stacks/*",
    "localcloud/cloudformation/*",
    "localcloud/ec2/*",
    "localcloud/filesystems/*",
]
COVERED_BY = (
    "test_examples.py deploys cluster.yaml and the example with nearly every key; test_stacks_snapshot.py and "
    "cfn-lint read every example's template"
)
EXAMPLES = sorted({*BY_COMMAND_LINE.parent.glob("*.yaml")} - {BY_COMMAND_LINE})
__all__ = ["bootstrapped"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_deployed_changed_and_destroyed(bootstrapped: Any, example: Path, tmp_path: Path) -> None:
    deployed_changed_and_destroyed(bootstrapped, example, tmp_path)
