"""Locks of root's programs: only root opens them, a wait has a limit and names the holder, and after a wait a program
asks whether its work is still wanted."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from gpucluster_node import ec2, fleet, locks, slurm
from gpucluster_node.power import in_flight, launched, offers, resume

from localcloud.tests.patience import wait_for

BOOTSTRAP = Path(locks.__file__).parents[1]
HOLD = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
MAY_LOCK = {"locks.py", "cache.py"}
"""The only modules that call flock. A data set's cache belongs to the jobs' user, and so does its lock."""
NOW = datetime(2026, 11, 28, tzinfo=UTC)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """By another process, which may only read the file."""
    argv = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdin and other.stdout.readline() == "\n"
        yield other.pid
        other.stdin.close()


def test_only_root_opens_a_lock_also_that_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / "old").touch(0o644)
    for name in ("old", "new"):
        with locks.held(tmp_path / name):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_wait_ends_and_names_who_holds_the_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with locked(tmp_path / "lock") as pid:
        said = re.escape(f"{tmp_path / 'lock'} is still locked after 0.1 s, by process {pid} of root ('python")
        with pytest.raises(locks.HeldError, match=said), locks.held(tmp_path / "lock", 0.1):
            pass
    with locks.held(tmp_path / "lock", 10):
        pass


def test_bash_says_the_same(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch(0o644)
    script = f'source {BOOTSTRAP}/lib/locks.sh; take_lock {lock} 0.1 || echo "$LOCK_ERROR"; stat -c %a {lock}; umask'
    with locked(lock) as pid:
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == [
        f"{lock} is still locked after 0.1 s, by process {pid} of root; end that process",
        "600",
    ]
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "600"


def test_no_other_code_opens_locks() -> None:
    """Whoever locks a file that all may open gives everybody the power to stop the program."""
    text = {path: path.read_text() for path in BOOTSTRAP.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    python = {path.name for path, said in text.items() if "fcntl.flock" in said}
    assert python == MAY_LOCK
    shell = [path for path, said in text.items() if re.search(r"^[^#\n]*\bflock (--|-?\d)", said, re.MULTILINE)]
    for path in shell:
        assert "umask 077" in text[path], path


def test_a_reader_of_a_record_holds_nothing(tmp_path: Path) -> None:
    """Users read why a node waits. The lock of a killed program's record must not stay held by one of them."""
    record = in_flight.Record(["train-1"], tmp_path)
    (path,) = tmp_path.glob("*.json")
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record.waits(["train-1"], "no capacity")
        assert in_flight.nodes(tmp_path) == {"train-1"}
        record._held.close()  # killed
        assert list(in_flight.killed(tmp_path)) == [path]
    modes = {each.name: each.stat().st_mode & 0o777 for each in (tmp_path, *tmp_path.rglob("*")) if each.is_dir()}
    assert modes["locks"] == 0o700
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "locks").iterdir()} == {0o600}


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(in_flight.Record.__init__, "__defaults__", (tmp_path / "launching", ()))
    monkeypatch.setattr(launched, "FOLDER", tmp_path / "launched")
    return tmp_path


def test_a_program_that_waited_leaves_nodes_that_another_one_has_launched(power: Path) -> None:
    """Both wait for the lock. The first gets it, launches, and has ended when the second one gets it."""
    first, second = offers.Request(["train-2"], []), offers.Request(["train-1", "train-2"], [])
    (power / "launching/locks").mkdir(parents=True)
    done: list[list[str]] = []
    with locks.held(power / "launching/locks/all"):
        late = threading.Thread(target=lambda: done.append(_accepted(second)))
        late.start()
        wait_for("the second program", late.is_alive, 10)
        launched.write({"train-2": ec2.Instance("i-1", "pending", "10.0.0.2", NOW, "train-2", None)})
    late.join(10)
    assert done == [["train-1"]]
    assert _accepted(first) == []
    assert _accepted(offers.Request(["train-2"], [])) == ["train-2"], "Slurm asks again after that"


def _accepted(request: offers.Request) -> list[str]:
    record = in_flight.Record(request.nodes)
    try:
        return resume.without_launched(record, request.since)
    finally:
        record.close()


def test_nodes_are_set_down_with_who_holds_the_lock(power: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    down: dict[str, str] = {}
    monkeypatch.setattr(slurm, "set_down", lambda nodes, why: down.update(dict.fromkeys(nodes, why)))
    monkeypatch.setattr(locks.wait, "__defaults__", (0.1,))
    monkeypatch.setattr(locks.held.__wrapped__, "__defaults__", (0.1,))  # type: ignore[attr-defined]
    (power / "launching/locks").mkdir(parents=True)
    (power / "launching/locks/all").touch()
    with locked(power / "launching/locks/all") as pid:
        resume.accept(offers.Request(["train-1"], []))()
    assert f"by process {pid} of root" in down["train-1"] and down["train-1"].endswith("; next try in 120 s")
    assert os.listdir(power / "launching") == ["locks"]


@pytest.mark.parametrize(("state", "launches"), [("DOWN", []), ("POWERING_UP", ["train-1"])])
def test_after_a_long_wait_only_nodes_that_slurm_still_powers_up_are_launched(
    power: Path, monkeypatch: pytest.MonkeyPatch, state: str, launches: list[str]
) -> None:
    """Slurm may have given the node up meanwhile, and asked another program for it."""
    asked: list[str] = []
    cluster = fleet.Fleet("c", "c.internal", "/gpucluster/c/", (fleet.Partition("train", 0, 4, "on-demand"),))
    monkeypatch.setattr(fleet, "load", lambda: cluster)
    states = frozenset({"ALLOCATED", state})
    monkeypatch.setattr(slurm, "nodes", lambda names: [slurm.Node(name, states) for name in names])
    monkeypatch.setattr(resume.Resume, "one", lambda self, group, killed: asked.extend(group.nodes))
    monkeypatch.setattr(resume, "LATE_S", -1.0)
    resume.accept(offers.Request(["train-1"], []))()
    assert asked == launches
