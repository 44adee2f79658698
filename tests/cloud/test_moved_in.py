"""Files of ParallelCluster, converted and deployed in an account that has what they name. Nothing boots.

tests/nightly/moved_in/test_moved_in_all.py deploys the others; tests/unit/parallelcluster synthesizes all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cloud.moved_in import Account, account, deployed_and_destroyed

__all__ = ["account"]
FILES = {"08": "Lustre and EBS", "22": "security groups and policies of the account", "28": "a volume of a snapshot"}


@pytest.mark.parametrize("name", FILES, ids=FILES.get)
def test_a_converted_file_is_deployed_without_an_edit(
    name: str, account: Account, bootstrapped: Any, tmp_path: Path
) -> None:
    deployed_and_destroyed(bootstrapped, account.converted(name), tmp_path)
