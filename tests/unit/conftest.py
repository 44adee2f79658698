"""Synthesized stacks, and a control plane in this process, for every test that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cloud_in_process import InProcess
from synthesis import ROOT, Template, synthesize


@pytest.fixture(scope="session")
def template_of() -> Callable[[str], Template]:
    """The CloudFormation template of a cluster file's text."""
    return synthesize


@pytest.fixture(scope="session")
def template() -> Template:
    """Of the default cluster."""
    return synthesize((ROOT / "cluster.yaml").read_text())


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """One for all tests of a worker: each makes its own resources."""
    cloud = InProcess(tmp_path_factory.mktemp("cloud"))
    yield cloud
    cloud.close()
