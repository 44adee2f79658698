"""Tiers: a test's folder is its tier. A tier that this machine cannot run is skipped with a message, or fails in CI."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import pytest

pytest_plugins = [
    "tests.nightly_tier",
    "localcloud.testing.patience",
    "tests.warm",  # imports patience
    "tests.cost",  # imports warm
    "localcloud.testing.control_plane",
    "beds",
]

ROOT = Path(__file__).resolve().parents[1]
TIERS = ("unit", "shell", "cloud", "cluster", "nightly", "gpu", "chaos")
NAMED = ("gpu", "chaos")
"""Tiers that run only if the command line names them: `make test-gpu`, `make chaos`."""
BOOTING = ("cluster", "nightly", "chaos")
SHARED = ("changing", "cluster", "people", "servers", "storage")
"""Fixtures for the whole session that boot nodes: the tests of each stay together, in order."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    parts = {part for argument in config.args for part in Path(argument.partition("::")[0]).parts}
    return True if collection_path.parent == ROOT / "tests" and collection_path.name in {*NAMED} - parts else None


@cache
def missing(tier: str) -> str | None:
    """Why this machine cannot run a tier; None if it can."""
    if tier in ("cloud", *BOOTING) and not (ROOT / "node_modules" / "aws-cdk").is_dir():
        return "the CDK command line is not installed: make setup"
    if tier in BOOTING:
        return _cannot_boot()
    return None


def _cannot_boot() -> str | None:
    from localcloud.machines import doctor

    troubles = [f"{each.name}: {each.found} ({each.advice})" for each in doctor.findings() if not each.ok]
    return "this machine cannot boot nodes: " + "; ".join(troubles) if troubles else None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(_tier(item))
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_place_among_workers if hasattr(config, "workerinput") else _place)


def pytest_configure(config: pytest.Config) -> None:
    options = config.option
    if getattr(options, "numprocesses", None) and (options.dist != "loadgroup" or options.loadscopereorder):
        raise pytest.UsageError("with --numprocesses (-n): add --dist=loadgroup --no-loadscope-reorder")
    _leave_out_contexts(config)


def _leave_out_contexts(config: pytest.Config) -> None:
    """After `gpucluster context use`, commands in tests would use that cluster. pip and others keep their settings."""
    users = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    os.environ.pop("GPUCLUSTER_CONTEXT", None)
    own = tempfile.TemporaryDirectory(prefix="gpucluster-settings-")
    for each in users.glob("*"):
        if each.name != "gpucluster":
            (Path(own.name) / each.name).symlink_to(each)
    os.environ["XDG_CONFIG_HOME"] = own.name
    config.add_cleanup(own.cleanup)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Checks that xdist uses groups, because otherwise each worker would boot every cluster."""
    lost = [item for item in session.items if not item.nodeid.endswith(f"@{_group(item)}")]
    if lost and hasattr(session.config, "workerinput"):
        pytest.exit(
            f"pytest-xdist has lost the group of {lost[0].nodeid}: is this pytest the one in requirements.lock?", 3
        )


def _place(item: pytest.Item) -> int:
    """Cheap tiers first."""
    return TIERS.index(_tier(item))


def _place_among_workers(item: pytest.Item) -> tuple[int, int, int]:
    """The slowest first, so that no worker runs alone with one at the end.

    Of the tests that share a cluster, the nightly ones are last, because the others depend on those before them.
    """
    group, place = _group(item), _place(item)
    if group not in SHARED:
        return -place, len(SHARED), 0
    return -TIERS.index("cluster"), SHARED.index(group), place


def _group(item: pytest.Item) -> str:
    """Tests of a group run in one worker: tests that share nodes, and otherwise the tests of a file.

    In tiers where nothing boots, a fixture of the same name is a different one.
    """
    fixtures = getattr(item, "fixturenames", ()) if _tier(item) in ("cluster", "nightly") else ()
    shared = next((each for each in SHARED if each in fixtures), None)
    if shared or "empty_cloud" not in fixtures:
        return shared or item.path.stem
    return f"{item.path.stem}-{item.name.partition('[')[0]}"


def _tier(item: pytest.Item) -> str:
    return _tier_of(item.path)


@cache
def _tier_of(path: Path) -> str:
    """The folder in `tests`: this one, or the local cloud's."""
    parts = path.relative_to(ROOT).parts
    return parts[parts.index("tests") + 1]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    reason = missing(_tier(item))
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"the {_tier(item)} tier must run under CI: {reason}", pytrace=False)
    if reason:
        pytest.skip(f"{_tier(item)} tier: {reason}")
