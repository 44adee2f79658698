"""A control plane in this process, for every test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcloud.tests import ec2_place
from localcloud.tests.in_process import InProcess


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """One for all tests of a worker: each makes its own resources."""
    cloud = InProcess(tmp_path_factory.mktemp("cloud"))
    yield cloud
    cloud.close()


@pytest.fixture(scope="module")
def here(cloud: InProcess) -> ec2_place.Here:
    return ec2_place.prepared(cloud)
