"""What a row of the chaos table finds on a cluster, and what becomes of a row that fails."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CHAOS = Path(__file__).resolve().parents[3] / "tests" / "chaos"


@pytest.fixture(scope="module")
def rows() -> Iterator[ModuleType]:
    """tests/chaos, which pytest imports only if the command line names it."""
    sys.path.insert(0, str(CHAOS))
    try:
        import rows

        yield rows
    finally:
        sys.path.remove(str(CHAOS))


@pytest.fixture(scope="module")
def fixtures(rows: ModuleType) -> ModuleType:
    """tests/chaos/conftest.py, which has the name of others."""
    spec = importlib.util.spec_from_file_location("chaos_conftest", CHAOS / "conftest.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Head:
    """In place of a booted cluster: what its head node prints, and its instances."""

    def __init__(self, printed: str, nodes: dict[str, str] | None = None) -> None:
        self._printed, self._nodes = printed, nodes or {}

    def ssh(self, *command: str) -> str:
        return self._printed

    def instances(self, role: str) -> dict[str, dict[str, str]]:
        return {id_: {"node": node} for id_, node in self._nodes.items()}


def explained(rows: ModuleType, line: str) -> None:
    """The form of log.c (_log_msg) in Slurm 23.11 and 24.11: the time, the level and the message."""
    rows.explain_errors(Head(f"[2026-11-27T09:05:55.123] {line}\n"))


def test_an_error_of_slurmctld_needs_an_explanation(rows: ModuleType) -> None:
    explained(rows, "_job_complete: JobId=7 done")
    explained(rows, "update_node: node boots-1 reason set to: slurmd does not start: slurmd: fatal: no such luck")
    explained(rows, "error: Nodes checks-1 not responding")
    with pytest.raises(AssertionError, match="some other trouble"):
        explained(rows, "error: some other trouble")


def test_so_does_an_error_that_ends_slurmctld(rows: ModuleType) -> None:
    """log.c: fatal() logs with the prefix `fatal: ` and exits. The message is one of controller.c."""
    with pytest.raises(AssertionError, match="slurmdbd must be up"):
        explained(rows, "fatal: slurmdbd must be up at slurmctld start time")


def test_services_that_systemd_has_started_again_are_counted(rows: ModuleType) -> None:
    assert rows.started_again(Head("0\n\n0\n\n0\n")) == {}
    assert rows.started_again(Head("1\n\n0\n\n2\n")) == {"slurmctld": 1, "gpucluster-power": 2}


def leaked(rows: ModuleType, monkeypatch: pytest.MonkeyPatch, nodes: dict[str, str]) -> int:
    monkeypatch.setattr(rows, "stretched", lambda seconds: 0.0)
    found: int = rows._leaked(rows.Row("a fault", Head("train-1 idle\ntrain-2 idle~\n", nodes)))
    return found


def test_an_instance_of_a_node_that_is_off_is_leaked(rows: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert leaked(rows, monkeypatch, {"i-1": "train-1"}) == 0
    assert leaked(rows, monkeypatch, {"i-1": "train-1", "i-2": "train-2", "i-3": ""}) == 2


def test_a_second_instance_of_a_node_is_leaked(rows: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert leaked(rows, monkeypatch, {"i-1": "train-1", "i-2": "train-1"}) == 1


class Reports:
    """A report of pytest, as conftest's `Written` hears of them."""

    def __init__(self, fixtures: ModuleType, file: Path) -> None:
        self._cells, self._table = fixtures.CELLS, fixtures.Table()
        self._written = fixtures.Written(self._table, file)

    def hear(self, cells: Any, sitting: int = 1) -> None:
        found = [(self._cells, {**asdict(cells), "sitting": sitting})]
        report = pytest.TestReport("a row", ("a row", 0, ""), {}, "passed", None, "teardown", user_properties=found)
        self._written.pytest_runtest_logreport(report)


def test_a_row_that_fails_replaces_its_line(rows: ModuleType, fixtures: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "table.md"
    file.write_text("<!-- the chaos table begins: make chaos writes it -->\n<!-- the chaos table ends -->\n")
    passed = fixtures.Cells("a node ends", "nothing", "the job ran again", 31, 0, 0)
    Reports(fixtures, file).hear(passed)
    assert "| a node ends | nothing | the job ran again | 31 | 0 | 0 |" in file.read_text()
    found = rows.Row("a node ends", Head(""), outcome="the job ran again", lost=1)
    later = Reports(fixtures, file)
    later.hear(fixtures.cells_of(found, passed=False))
    later.hear(passed, sitting=2)
    assert "the job ran again" not in file.read_text()
    assert f"| a node ends |  | {rows.FAILED} | 0 | 0 | 1 |" in file.read_text()
