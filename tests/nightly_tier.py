"""A pytest plugin: selects the files of tests/nightly for a run, and stamps those that passed.

--nightly=none   only those that the command line names; the default
--nightly=stale  those with an outdated stamp, see tests/stamps.py
--nightly=all    all
--nightly-minutes=N  of those with an outdated stamp, only as many as took N minutes together, the oldest stamp first
--stamp          write a stamp for each file whose tests all passed in this run
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests import stamps
from tests.stamps import FOLDERS, State

NEW_S = 300
"""What a file without a stamp is expected to take."""
PARTS = ("keyword", "markexpr", "deselect", "lf")
"""Options that deselect tests of a file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nightly")
    group.addoption("--nightly", choices=("none", "stale", "all"), default="none", help="files of tests/nightly to run")
    group.addoption("--nightly-minutes", type=int, metavar="N", help="of one worker, for files with an outdated stamp")
    group.addoption("--stamp", action="store_true", help="stamp the files of tests/nightly that pass")


def pytest_configure(config: pytest.Config) -> None:
    if worker := getattr(config, "workerinput", None):
        config.pluginmanager.register(Files(config.rootpath, worker["nightly"]), "nightly_files")
        return
    wanted, paths = config.option.nightly, stamps.test_files(config.rootpath)
    states = {path.name: stamps.state(config.rootpath, path) for path in paths} if wanted == "stale" else {}
    names = [path.name for path in paths if wanted == "all" or _named(config, path)]
    names = _in_time(config.rootpath, paths, states, config.option.nightly_minutes) if wanted == "stale" else names
    files = Files(config.rootpath, names)
    config.pluginmanager.register(files, "nightly_files")
    config.pluginmanager.register(Overview(states, len(paths), names), "nightly_overview")
    if config.option.stamp:
        _refuse_parts(config)
        config.pluginmanager.register(Stamps(config.rootpath, files), "nightly_stamps")


def _in_time(root: Path, paths: list[Path], states: dict[str, State], minutes: int | None) -> list[str]:
    """The files whose stamps do not fit and for which there is time: all, if nobody limits it. A file that does
    not fit into the rest is left out, and its turn comes in a later run: its stamp becomes the oldest."""
    stale = [(stamps.read(root, path), path.name) for path in paths if states[path.name].stale]
    left_s = float("inf") if minutes is None else minutes * 60
    chosen = []
    for stamp, name in sorted(stale, key=lambda each: each[0].passed if each[0] else ""):
        seconds = stamp.seconds if stamp else NEW_S
        if seconds <= left_s:
            chosen.append(name)
            left_s -= seconds
    return chosen


def _named(config: pytest.Config, path: Path) -> bool:
    given = {(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args}
    folders = (each for each in path.relative_to(config.rootpath).parents if _is_nightly(each))
    return not given.isdisjoint((path, *(config.rootpath / each for each in folders)))


def _is_nightly(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in FOLDERS)


def _refuse_parts(config: pytest.Config) -> None:
    given = [name for name in PARTS if getattr(config.option, name, None)]
    given += [argument for argument in config.args if "::" in argument]
    if given:
        raise pytest.UsageError(f"--stamp is for whole files of tests/nightly: leave out {', '.join(given)}")


def file_of(nodeid: str) -> str | None:
    """A test's file, by its name, if it is a nightly one."""
    path = Path(nodeid.partition("::")[0])
    return path.name if _is_nightly(path) else None


class Files:
    """In each process: collects only the files that run, and counts their tests."""

    def __init__(self, root: Path, names: list[str]) -> None:
        self.names = names
        self.tests: Counter[str] = Counter()
        self._files = {path.name: path for path in stamps.test_files(root)}

    def path(self, name: str) -> Path:
        return self._files[name]

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        is_ours = collection_path in self._files.values()
        return True if is_ours and collection_path.name not in self.names else None

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if name := file_of(item.nodeid):
            self.tests[name] += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["nightly"] = self.names

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Each worker collects all of them."""
        self.tests |= Counter(filter(None, map(file_of, ids)))


class Overview:
    """Prints which files run, which do not, and why: before the run, and again after it."""

    def __init__(self, states: dict[str, State], files: int, run: list[str]) -> None:
        without = {True: "no time for it in this run", False: "left out"}
        self.lines = [
            f"{'run' if name in run else without[each.stale]}: {name}: {each}" for name, each in states.items()
        ]
        if not states and len(run) < files:
            self.lines = [f"{files - len(run)} of {files} files left out: make test-all runs them"]

    def pytest_report_header(self) -> list[str]:
        return [f"nightly tier: {line}" for line in self.lines]

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.lines:
            terminalreporter.section("nightly tier")
            terminalreporter.write("".join(f"{line}\n" for line in self.lines))


class Stamps:
    """The outcome of each test, and each file's subjects at the start of the run. A file is stamped as soon as its last
    test has passed: an interrupted run keeps what it has proved."""

    def __init__(self, root: Path, files: Files) -> None:
        self.root = root
        self.files = files
        self.subjects = {name: self._subjects(name) for name in files.names}
        self.passed: defaultdict[str, set[str]] = defaultdict(set)
        self.not_passed: dict[str, str] = {}
        self.seconds: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.outcomes: dict[str, str] = {}

    def _subjects(self, name: str) -> dict[str, str]:
        try:
            return stamps.fingerprint(self.root, self.files.path(name))
        except stamps.SubjectsError as error:
            raise pytest.UsageError(str(error)) from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not (name := file_of(report.nodeid)):
            return
        self.seconds[name] += report.duration  # type: ignore[assignment]
        if not report.passed or hasattr(report, "wasxfail"):
            self.not_passed.setdefault(name, report.nodeid)
        elif report.when == "call":
            self.passed[name].add(report.nodeid)
        self.ended[name] += report.when == "teardown"
        if self.ended[name] == self.files.tests[name]:
            self.outcomes.setdefault(name, self._stamped(name))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("stamps of the nightly tier")
        outcomes = {name: self.outcomes.get(name) or self._stamped(name) for name in self.subjects}
        terminalreporter.write("".join(f"{name}: {outcome}\n" for name, outcome in outcomes.items()))

    def _stamped(self, name: str) -> str:
        if name in self.not_passed:
            return f"no stamp: {self.not_passed[name]} did not pass"
        if not self.passed[name] or len(self.passed[name]) != self.files.tests[name]:
            return f"no stamp: {len(self.passed[name])} of its {self.files.tests[name]} tests ran"
        if self._subjects(name) != self.subjects[name]:
            return "no stamp: what it proves was changed while it ran"
        return str(stamps.write(self.root, self.files.path(name), self.subjects[name], self.seconds[name]))
