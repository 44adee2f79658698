"""The inputs of `gpucluster init --from` that tests/cloud/test_moved_in.py leaves out: deployed and destroyed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cloud.conftest import bootstrapped
from tests.cloud.moved_in import FOLDER, Account, account, deployed_and_destroyed
from tests.cloud.test_moved_in import FILES
from tests.unit.parallelcluster.test_parallelcluster_synthesized import TO_EDIT

SUBJECTS = [
    "gpucluster/parallelcluster/*",
    "tests/data/parallelcluster/*",
    "stacks/*",
    "localcloud/cloudformation/*",
    "localcloud/ec2/*",
    "localcloud/filesystems/*",
]
COVERED_BY = "test_moved_in.py deploys three of them; test_parallelcluster_synthesized.py synthesizes all"
OTHERS = sorted({path.stem for path in FOLDER.glob("*.yaml")} - {*FILES} - {*TO_EDIT})
__all__ = ["account", "bootstrapped"]


@pytest.mark.parametrize("name", OTHERS)
def test_a_converted_file_is_deployed_without_an_edit(
    name: str, account: Account, bootstrapped: Any, tmp_path: Path
) -> None:
    deployed_and_destroyed(bootstrapped, account.converted(name), tmp_path)
