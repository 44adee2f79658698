"""Synthesized stacks for every test that asks for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from synthesis import ROOT, Template, synthesize


@pytest.fixture(scope="session")
def template_of() -> Callable[[str], Template]:
    """The CloudFormation template of a cluster file's text."""
    return synthesize


@pytest.fixture(scope="session")
def template() -> Template:
    """The template of the default cluster."""
    return synthesize((ROOT / "cluster.yaml").read_text())
