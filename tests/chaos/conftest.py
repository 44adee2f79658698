"""The chaos table: faults on the booted nodes of one cluster, and what remains of each. `make chaos` runs it.

Each test is a row, named by its marker: `@pytest.mark.fault("the node's instance ends")`. All rows share one cluster.
The rows of a file with the marker `partitions` use these partitions only. Such files run side by side, each in a worker
of pytest-xdist. All other rows run alone, because their fault concerns the head node or a service of AWS.
`--sittings 2` runs all rows twice. `--table docs/reliability.md` writes the rows into that table, also those that fail.
`--keep=FOLDER` uses the cluster of FOLDER, or starts one there, and leaves it running: for work on a row.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from bed import Bed
from block import configure
from rows import FAILED, Row, at_rest_afterwards, explain_errors
from table import Cells, Table

PLAIN = "/home/plain"
CELLS = "cells of the chaos table"
FOLDER = pytest.StashKey[Path]()
PASSED = pytest.StashKey[bool]()
LONGEST_FIRST = (
    "test_launches",
    "test_boots",
    "test_health",
    "test_slurmdbd",
    "test_jobs",
    "test_network",
    "test_ends",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--sittings", type=int, default=1, help="how often all rows run on the same cluster")
    group.addoption("--table", type=Path, help="the Markdown file whose table gets the rows")
    group.addoption("--keep", type=Path, help="the folder of a cluster to use, and to leave running")


def pytest_configure(config: pytest.Config) -> None:
    if worker := getattr(config, "workerinput", None):
        config.stash[FOLDER] = Path(worker["chaos"])
        return
    if (table := config.option.table) and not table.is_file():
        raise pytest.UsageError(
            f"--table: {table} does not exist; name a Markdown file with the table, as docs/reliability.md"
        )
    config.stash[FOLDER] = config.option.keep or Path(tempfile.mkdtemp(prefix="gpucluster-chaos-"))
    config.stash[FOLDER].mkdir(parents=True, exist_ok=True)
    config.pluginmanager.register(Written(Table(), config.option.table), "chaos_table")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["chaos"] = str(node.config.stash[FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the cluster once all workers have ended."""
    if hasattr(config, "workerinput") or FOLDER not in config.stash:
        return
    folder = config.stash[FOLDER]
    bed = recorded(folder)
    if bed and config.option.keep:
        print(f"\nthe cluster continues; to end it: python -m localcloud down --name {bed.name} && rm -r {folder}")
    elif bed:
        bed.close()
    if not config.option.keep:
        shutil.rmtree(folder)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """The rows that run alone are the last: some replace the head node. The time for which they wait counts, too."""

    def place(item: pytest.Function) -> tuple[object, bool, int]:
        names = [*LONGEST_FIRST, item.path.stem]
        return item.callspec.params["sitting"], not item.get_closest_marker("partitions"), names.index(item.path.stem)

    items.sort(key=place)
    for item in items:
        item.add_marker(pytest.mark.timeout(7200))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sitting" in metafunc.fixturenames:
        sittings = range(1, metafunc.config.option.sittings + 1)
        metafunc.parametrize("sitting", sittings, scope="session", ids=lambda number: f"sitting-{number}")


@pytest.fixture(scope="session")
def chaos(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """The cluster of all rows; its jobs need no framework. The first worker starts it."""
    folder = request.config.stash[FOLDER]
    with locked(folder / "start", fcntl.LOCK_EX):
        bed = recorded(folder) or started(folder, kept=request.config.option.keep is not None)
        deployed = folder / f"deployed-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
        if not deployed.exists():
            configure(bed)
            bed.up()
            bed.ssh("sh", "-c", f"sudo mkdir -p {PLAIN}/bin && sudo ln -sf /usr/bin/python3 {PLAIN}/bin/python")
            deployed.touch()
    yield bed
    explain_errors(bed)


def recorded(folder: Path) -> Bed | None:
    record = folder / "bed.json"
    return Bed(folder, **json.loads(record.read_text()), python=PLAIN) if record.exists() else None


def started(folder: Path, *, kept: bool) -> Bed:
    """A new local cloud. It ends with the process of the test run, unless it is kept."""
    bed = replace(Bed.make(folder), python=PLAIN)
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    bed.open_cloud(while_pid=None if kept else run)
    (folder / "bed.json").write_text(json.dumps({"name": bed.name, "port": bed.port}))
    return bed


@contextmanager
def locked(file: Path, how: int) -> Iterator[None]:
    with file.open("w") as opened:
        fcntl.flock(opened, how)
        yield


@pytest.fixture
def row(request: pytest.FixtureRequest, chaos: Bed, sitting: int) -> Iterator[Row]:
    marker, own = (request.node.get_closest_marker(name) for name in ("fault", "partitions"))
    assert marker, "a row needs its fault: @pytest.mark.fault(…)"
    found = Row(marker.args[0], chaos, own.args if own else ())
    turn = fcntl.LOCK_SH if own else fcntl.LOCK_EX
    passed = False
    try:
        with locked(request.config.stash[FOLDER] / "turn", turn), at_rest_afterwards(found):
            yield found
        assert (found.leaked, found.lost) == (0, 0), "leaked instances, lost jobs"
        assert found.started_again == dict.fromkeys(found.killed, 1), "services that systemd has started again"
        passed = request.node.stash.get(PASSED, False)
    finally:
        cells = {**asdict(cells_of(found, passed=passed)), "sitting": sitting}
        request.node.user_properties.append((CELLS, cells))


def cells_of(row: Row, *, passed: bool) -> Cells:
    return row.cells if passed else replace(row.cells, outcome=FAILED)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, bool, bool]:
    called = yield
    row = pyfuncitem.funcargs.get("row")
    assert row is None or row.outcome, "a row ends with its outcome: row.ends(…)"
    pyfuncitem.stash[PASSED] = True
    return called


class Written:
    """In the process that hears of all workers' rows: writes each at once, so that an interrupted run keeps it. If a
    row fails in one sitting, its line says so."""

    def __init__(self, table: Table, file: Path | None) -> None:
        self._table, self._file = table, file
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties).get(CELLS) if report.when == "teardown" else None
        if not isinstance(found, dict):
            return
        sitting = found.pop("sitting")
        cells = Cells(**found)
        if cells.fault in self._failed:
            return
        if cells.outcome == FAILED:
            self._failed.add(cells.fault)
        self._table.add(cells, sitting)
        if self._file:
            self._table.write(self._file)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("the chaos table")
        terminalreporter.write_line(self._table.text())
