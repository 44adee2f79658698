"""Fixtures that several files of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from signed_aws import SignedAws


@pytest.fixture
def aws() -> Iterator[SignedAws]:
    server = SignedAws()
    yield server
    server.close()
