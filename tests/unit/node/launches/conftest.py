"""AWS and Slurm as launches see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from gpucluster_node import ec2, rates, refusals, slurm
from gpucluster_node.head import release, update
from gpucluster_node.power import failing, joining, last_launches, launch, resume, shortage, suspend
from stubbed_aws import Stubs


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubs]:
    """stubs(service): its Stubber, active; at the end nothing may be pending."""
    made: dict[str, tuple[Any, Stubber]] = {}

    def client(service: str, attempts: int = 0) -> Any:
        if service not in made:
            one = boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
            made[service] = one, Stubber(one)
            made[service][1].activate()
        return made[service][0]

    def stub(service: str) -> Stubber:
        client(service)
        return made[service][1]

    for module in (joining, resume, suspend, release, update):
        monkeypatch.setattr(module, "client", client)
    yield stub
    for _, stubber in made.values():
        stubber.assert_no_pending_responses()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if nobody had called before."""
    monkeypatch.setattr(shortage, "_next", {})
    monkeypatch.setattr(last_launches, "FOLDER", tmp_path / "launched")
    monkeypatch.setattr(failing, "pauses", lambda now: {})
    monkeypatch.setattr(launch, "CALLS", rates.TokenBucket(100, 100))
    monkeypatch.setattr(ec2, "TAG_CALLS", rates.TokenBucket(100, 100))


@pytest.fixture
def scontrol(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The argument lists that would have been run."""
    calls: list[list[str]] = []
    monkeypatch.setattr(slurm, "call", lambda argv: calls.append(list(argv)) or "")
    return calls


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Partition and code of each refusal that the dashboard would show."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(refusals, "record", lambda partition, code: found.append((partition, code)))
    return found
