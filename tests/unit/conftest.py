"""Synthesized stacks for every test that asks for one, and what keeps tests of one process apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from gpucluster_node import record_ends
from synthesis import ROOT, Template, synthesize

from gpucluster.head import records


@pytest.fixture(autouse=True)
def _no_credentials_for_later_tests() -> Iterator[None]:
    """A later test of the process would call AWS with them."""
    before = _variables_of_aws()
    yield
    changed = {name for name, _ in before ^ _variables_of_aws()}
    assert not changed, f"the test has changed {changed} for all later tests"


def _variables_of_aws() -> set[tuple[str, str]]:
    return {(name, value) for name, value in os.environ.items() if name.startswith("AWS_")}


@pytest.fixture(autouse=True)
def _records_without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded output of squeue, and the programs that play it, have no marks; test_forged_rows.py and
    test_node_forged_rows.py have."""
    monkeypatch.setattr(records, "MARKS", False)
    monkeypatch.setattr(record_ends, "END", "")


@pytest.fixture
def moto_sagemaker(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto's own answers: a local cloud in this process has put others in their place."""
    import moto.sagemaker.urls
    from moto.sagemaker.responses import SageMakerResponse

    monkeypatch.setitem(moto.sagemaker.urls.url_paths, "{0}/$", SageMakerResponse.dispatch)


@pytest.fixture(scope="session")
def template_of() -> Callable[[str], Template]:
    """The CloudFormation template of a cluster file's text."""
    return synthesize


@pytest.fixture(scope="session")
def template() -> Template:
    """The template of the default cluster."""
    return synthesize((ROOT / "cluster.yaml").read_text())
