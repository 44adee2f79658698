"""The page, read by one browser or by none yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.recorded_cluster import RecordedCluster
from tests.served_page import Browser, served


@pytest.fixture
def stranger() -> Iterator[Browser]:
    """Has not opened the address yet."""
    with served(RecordedCluster()) as found:
        yield found


@pytest.fixture(scope="session")
def _reader() -> Iterator[Browser]:
    with served(RecordedCluster()) as found:
        found.enter()
        yield found


@pytest.fixture
def browser(_reader: Browser) -> Browser:
    """One for all tests, which finds the server as if it had just started."""
    _reader.answers.clear()
    _reader.source.reset()
    return _reader


@pytest.fixture(scope="session")
def _writer() -> Iterator[Browser]:
    with served(RecordedCluster(may_write=True)) as found:
        found.enter()
        yield found


@pytest.fixture
def writer(_writer: Browser) -> Browser:
    """A browser of `gpucluster ui --write`."""
    _writer.answers.clear()
    _writer.source.reset()
    return _writer
