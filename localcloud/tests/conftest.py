"""The local cloud's own tests: a test's folder is its tier, and a tier that this machine cannot run is skipped."""

from __future__ import annotations

import os
from functools import cache

import pytest

pytest_plugins = ["localcloud.testing.patience", "localcloud.testing.control_plane"]


@cache
def missing(tier: str) -> str | None:
    """Why this machine cannot run a tier; None if it can."""
    from localcloud.machines import doctor
    from localcloud.testing import cdk_project

    if tier in ("cloud", "nightly") and (reason := cdk_project.missing()):
        return reason
    if tier not in ("cluster", "nightly"):
        return None
    troubles = [f"{each.name}: {each.found} ({each.advice})" for each in doctor.findings() if not each.ok]
    return "this machine cannot boot instances: " + "; ".join(troubles) if troubles else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    parts = item.path.parts
    tier = parts[len(parts) - parts[::-1].index("tests")]
    reason = missing(tier)
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"the {tier} tier must run under CI: {reason}", pytrace=False)
    if reason:
        pytest.skip(f"{tier} tier: {reason}")
