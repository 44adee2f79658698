"""Tiers: a test's folder is its tier, and a tier that this machine cannot run is skipped aloud, or fails under CI."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TIERS = ("unit", "shell", "cloud", "cluster")


@cache
def missing(tier: str) -> str | None:
    """Why this machine cannot run a tier; None where it can."""
    if tier in ("cloud", "cluster") and not (ROOT / "node_modules" / "aws-cdk").is_dir():
        return "the CDK command line is not installed: make setup"
    if tier == "cluster":
        return _cannot_boot()
    return None


def _cannot_boot() -> str | None:
    from localcloud.machines import doctor

    troubles = [f"{each.name}: {each.found} ({each.advice})" for each in doctor.findings() if not each.ok]
    return "this machine cannot boot nodes: " + "; ".join(troubles) if troubles else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {tier: number for number, tier in enumerate(TIERS)}
    for item in items:
        item.add_marker(_tier(item))
    items.sort(key=lambda item: order[_tier(item)])


def _tier(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT / "tests").parts[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    reason = missing(_tier(item))
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"the {_tier(item)} tier must run under CI: {reason}", pytrace=False)
    if reason:
        pytest.skip(f"{_tier(item)} tier: {reason}")
