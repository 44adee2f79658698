"""A pytest plugin that prints each tier's cost at the end of a run.

CPU seconds are those of the test process and of processes that it started and waited for, so a busy machine hardly
changes them. They do not contain local clouds and their nodes; `python -m bench.tiers` counts those too.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import warm

OTHER = "starting and collecting"


@dataclass
class Cost:
    tests: int = 0
    worker_s: float = 0
    cpu_s: float = 0

    def add(self, report: pytest.TestReport) -> None:
        self.tests += report.when == "call"
        self.worker_s += report.duration
        self.cpu_s += getattr(report, "cpu_s", 0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--files", type=int, default=0, metavar="N", help="print the N test files that cost the most CPU")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Meter(), "cost_meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(config.option.files), "cost_summary")


def cpu_s() -> float:
    """The cost of this process, of every child that has ended, and of commands in forks of another process."""
    return sum(os.times()[:4]) + warm.used_s()


def tier_of(path: Path) -> str:
    """tests/unit/test_x.py: unit; localcloud/tests/unit/test_x.py: localcloud unit."""
    folders = path.parent.parts
    at = folders.index("tests") if "tests" in folders else -1
    return " ".join((*folders[:at], *folders[at + 1 : at + 2])) if at >= 0 else "."


class Meter:
    """In each process that runs tests."""

    def __init__(self) -> None:
        self.seen = 0.0
        self.of_tests = 0.0

    def pytest_runtest_logstart(self) -> None:
        self.seen = cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = cpu_s()
        report.cpu_s = now - self.seen  # type: ignore[attr-defined]
        self.of_tests += now - self.seen
        self.seen = now
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cpu_s"] = cpu_s() - self.of_tests


@dataclass(eq=False)  # pytest keeps plugins in a set
class Summary:
    files: int
    tiers: defaultdict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    by_file: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = Path(report.nodeid.partition("::")[0])
        self.tiers[tier_of(path)].add(report)
        self.by_file[path.as_posix()] += getattr(report, "cpu_s", 0)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.tiers[OTHER].cpu_s += getattr(node, "workeroutput", {}).get("cpu_s", 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if sum(cost.worker_s for cost in self.tiers.values()) < 60 and not self.files:
            return
        terminalreporter.section("what the tiers cost")
        terminalreporter.write("".join(f"{line}\n" for line in self._lines()))

    def _lines(self) -> Iterable[str]:
        for tier, cost in self.tiers.items():
            yield f"{tier}: {cost.tests} tests, {cost.worker_s / 60:.1f} minutes of workers, {cost.cpu_s:.0f} CPU s"
        for name, seconds in self.by_file.most_common(self.files):
            yield f"{seconds:7.1f} CPU s  {name}"
