"""The order of the tests that share a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The session's first job is for a partition without a node, so its tests run before all others of the cluster.

    The check of what nodes were allowed to do runs after all others.
    """
    ours = [number for number, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    places = {"test_training.py": 0, "test_roles.py": 2}
    ordered = sorted((items[number] for number in ours), key=lambda item: places.get(item.path.name, 1))
    for number, item in zip(ours, ordered, strict=True):
        items[number] = item
