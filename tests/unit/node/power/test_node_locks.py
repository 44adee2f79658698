"""Locks of root's programs: only root opens them, a wait has a limit and names the holder, and after a wait a program
asks whether its work is still wanted."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from gpucluster_node import fleet, locks
from gpucluster_node.power import daemon, journal, limits

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
    """Users read why a node waits. A launch, and the next daemon, must not wait for one of them."""
    record = journal.Journal(tmp_path).open(["train-1"])
    (path,) = tmp_path.glob("*.json")
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record.waits(["train-1"], "no capacity")
        (found,) = journal.Journal(tmp_path).reopen()
    assert found.mine == ["train-1"]


def test_a_second_daemon_ends_with_the_name_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LOCK", tmp_path / "power.lock")
    monkeypatch.setattr(locks.held.__wrapped__, "__defaults__", (0.1,))  # type: ignore[attr-defined]
    monkeypatch.setattr(daemon, "start_logging", lambda: None)
    (tmp_path / "power.lock").touch()
    with locked(tmp_path / "power.lock") as pid, pytest.raises(locks.HeldError, match=f"by process {pid} of root"):
        daemon.main()


def test_a_launch_that_waits_too_long_for_its_partitions_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after any error, the nodes are set DOWN with it."""
    monkeypatch.setattr(limits, "LOCK_LIMIT_S", 0.1)
    cluster = fleet.Fleet("c", "c.internal", "/c/", (fleet.Partition("train", 0, 4, "on-demand", 5.0),))
    limited = limits.Limits(cluster, lambda: None, lambda: NOW)
    first = limited.one_at_a_time("train")
    with first, pytest.raises(TimeoutError, match="another launch of partition train"):
        limited.one_at_a_time("train").__enter__()
    with limited.one_at_a_time("train"):
        pass
