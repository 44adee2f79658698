"""A node's scratch space between jobs, and cached data sets: real files, with a simulated disk size."""

from __future__ import annotations

import fcntl
import getpass
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gpucluster_node.scratch import cache as scratch_cache
from gpucluster_node.scratch import jobs
from gpucluster_node.scratch import place as scratch_place
from gpucluster_node.scratch.cache import Cache, NoRoom

A, B, C = "a" * 64, "b" * 16, "c" * 40
PYTHON = (sys.executable, "-c")
MB = 10**6
NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path) -> Path:
    scratch_place.lay_out(tmp_path / "scratch", getpass.getuser())
    return tmp_path / "scratch"


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent of this machine's disk."""
    free(monkeypatch, 10**9)


@pytest.fixture
def cache(place: Path) -> Cache:
    return Cache(place / "cache", "7")


def writing(name: str, size: int = 3) -> tuple[str, ...]:
    return (*PYTHON, f"open('{name}', 'w').write('x' * {size})")


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The disk has room for so much beside what is in the cache; its data sets count with what they take."""
    total = size

    def left(self: Cache) -> int:
        return total - sum(entry.bytes for entry in self.entries())

    monkeypatch.setattr(Cache, "_free", left)


def test_a_data_set_is_made_once(cache: Cache) -> None:
    assert cache.get(A) is None
    folder, status = cache.fill(A, 3, writing("x"))
    assert (status, (folder / "x").read_text()) == (0, "xxx")
    assert cache.fill(A, 3, (*PYTHON, "raise SystemExit('ran again')")) == (folder, 0)
    assert cache.get(A) == folder


def test_its_files_are_not_written_again(cache: Cache) -> None:
    folder, _ = cache.fill(A, 3, ("sh", "-c", "mkdir -p a/b; echo x >a/b/x; ln -s /tmp a/link"))
    kept = (folder, folder / "a", folder / "a/b", folder / "a/b/x")
    assert [path.stat().st_mode & 0o222 for path in kept] == [0] * 4
    assert Path("/tmp").stat().st_mode & 0o222


def test_read_only_data_sets_can_be_removed() -> None:
    """Also for the jobs' user, to whom file modes apply."""
    with tempfile.TemporaryDirectory() as top:
        place = Path(top, "cache")
        place.mkdir()
        if os.geteuid() == 0:
            Path(top).chmod(0o755)
            os.chown(place, NOBODY, NOBODY)
        asking = multiprocessing.get_context("fork").Process(target=_fill_and_make_room, args=(place,))
        asking.start()
        asking.join()
        assert asking.exitcode == 0
        assert [path.name for path in place.iterdir()] == [".state"]


def _fill_and_make_room(place: Path) -> None:
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    cache = Cache(place)
    assert cache.fill(A, 3, ("sh", "-c", "mkdir -p a/b; echo x >a/b/x"))[1] == 0
    assert cache.fill(B, 3, ("sh", "-c", "mkdir -p a/b; echo x >a/b/x; chmod 0 a; exit 5"))[1] == 5
    cache._remove(A)


@pytest.mark.parametrize(
    ("program", "status"), [("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_nothing_is_kept_of_a_command_that_fails(cache: Cache, place: Path, program: str, status: int) -> None:
    _, got = cache.fill(A, 3, (*PYTHON, f"open('half', 'w').write('x'); {program}"))
    assert (got, cache.get(A)) == (status, None)
    assert [path.name for path in (place / "cache").iterdir()] == [".state"]


def test_files_of_a_killed_program_are_no_data_set(cache: Cache, place: Path) -> None:
    (place / "cache" / f".{A}.new").mkdir()
    (place / "cache" / f".{A}.new" / "half").touch()
    assert cache.get(A) is None
    folder, _ = cache.fill(A, 3, writing("x"))
    assert [path.name for path in folder.iterdir()] == ["x"]


def test_ranks_that_ask_together_wait_for_the_one_that_makes_it(place: Path, tmp_path: Path) -> None:
    command = (*PYTHON, f"import time; open('{tmp_path}/runs', 'a').write('r'); time.sleep(0.3); open('x', 'w')")
    found: list[object] = []
    asking = [
        threading.Thread(target=lambda: found.append(Cache(place / "cache").fill(A, 1, command))) for _ in range(8)
    ]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert (tmp_path / "runs").read_text() == "r"
    assert found == [(place / "cache" / A, 0)] * 8


def test_the_least_recently_used_data_set_is_removed_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 10 * MB)
    cache = Cache(place / "cache")
    for number, name in enumerate((A, B, C)):
        cache.fill(name, 3 * MB, writing("x", 3 * MB))
        os.utime(place / "cache/.state" / f"{name}.json", (number, number))
    cache.get(A)  # used now
    cache.fill("d" * 16, 3 * MB, writing("x", 3 * MB))
    assert [cache.get(name) is not None for name in (A, B, C, "d" * 16)] == [True, False, True, True]


def test_data_sets_in_use_stay_and_none_is_removed_in_vain(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 10 * MB)
    Cache(place / "cache").fill(A, 3 * MB, writing("x", 3 * MB))
    Cache(place / "cache", "7").fill(B, 6 * MB, writing("x", 6 * MB))
    other = Cache(place / "cache", "8")
    with pytest.raises(NoRoom, match=r"no room for 0\.0 GB .* jobs use 0\.0 GB"):
        other.fill(C, 5 * MB, writing("x"))
    assert [other.get(name) is not None for name in (A, B, C)] == [True, True, False]
    scratch_cache.forget_job(place / "cache", "8")
    scratch_cache.forget_job(place / "cache", "7")
    assert other.fill(C, 5 * MB, writing("x"))[1] == 0


def test_space_promised_to_another_fill_is_not_given_away(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 10 * MB)
    go = place / "go"
    until_then = f"import os, time\nfor _ in range(6000): os.path.exists({str(go)!r}) or time.sleep(0.01)"
    slow = threading.Thread(target=Cache(place / "cache").fill, args=(A, 8 * MB, (*PYTHON, until_then)))
    slow.start()
    promised = place / "cache/.state" / f"{A}.filling"
    while not (promised.exists() and promised.read_text()):
        time.sleep(0.01)
    with pytest.raises(NoRoom):
        Cache(place / "cache").fill(B, 3 * MB, writing("x"))
    go.touch()
    slow.join()
    assert Cache(place / "cache").fill(B, 3 * MB, writing("x"))[1] == 0


@pytest.mark.parametrize("killed", [False, True])
def test_a_failed_fill_no_longer_reserves_space(place: Path, monkeypatch: pytest.MonkeyPatch, killed: bool) -> None:
    free(monkeypatch, 15 * MB)
    if killed:  # with no time to say so
        (place / "cache/.state").mkdir()
        (place / "cache/.state" / f"{A}.filling").write_text(str(10 * MB))
    for status in (5, 5, 0):
        assert Cache(place / "cache").fill(A, 10 * MB, (*PYTHON, f"raise SystemExit({status})"))[1] == status
        assert (place / "cache/.state" / f"{A}.filling").read_text() == ""


def test_a_jobs_end_leaves_the_data_sets_and_nothing_else(place: Path, cache: Cache) -> None:
    jobs.begin(place, "7", os.getuid())
    (place / "jobs/7/mine").touch()
    (place / "loose").mkdir()
    (place / "loose/file").touch()
    (place / "link").symlink_to("/etc")
    (place / "containers/image").touch()
    kept, _ = cache.fill(A, 1, writing("x"))
    assert jobs.end(place, "7") == []
    assert sorted(path.name for path in place.iterdir()) == ["cache", "containers", "jobs"]
    assert not any((place / "jobs").glob("[!.]*")) and not any((place / "jobs/.gone").iterdir())
    assert (place / "containers/image").exists()
    assert (kept / "x").exists() and cache.entries()[0].jobs == ()
    assert Path("/etc").is_dir()


def test_a_job_that_shares_the_node_keeps_its_files(place: Path, cache: Cache) -> None:
    for job in ("7", "8"):
        jobs.begin(place, job, os.getuid())
    (place / "loose").touch()
    jobs.end(place, "7")
    assert (place / "loose").exists() and not (place / "jobs/7").exists()
    jobs.end(place, "8")
    assert not (place / "loose").exists()


def test_a_job_that_begins_while_another_ends_loses_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.begin(place, "7", os.getuid())
    (place / "loose").mkdir()
    remove, removed = scratch_place.remove, []

    def slow(path: Path, device: int) -> bool:
        removed.append(path)
        if len(removed) == 2:  # its own folder is gone, the rest is going
            jobs.begin(place, "8", os.getuid())
            (place / "loose").mkdir(exist_ok=True)
            (place / "loose/of-8").touch()
        return remove(path, device)

    monkeypatch.setattr(scratch_place, "remove", slow)
    assert jobs.end(place, "7") == []
    assert (place / "jobs/8").is_dir() and (place / "loose/of-8").exists()


def test_a_data_set_being_filled_is_not_removed(place: Path) -> None:
    (place / "cache/.state").mkdir()
    for name in (A, B, C):
        (place / "cache" / f".{name}.new").mkdir()
    (place / "cache/.state" / f"{A}.filling").touch()
    with (place / "cache/.state" / f"{B}.filling").open("w") as filling:
        fcntl.flock(filling, fcntl.LOCK_EX)
        scratch_cache.discard_unfinished(place / "cache")
    assert [path.name for path in (place / "cache").glob(".*.new")] == [f".{B}.new"]


def test_a_job_starts_after_the_cleanup_has_decided(place: Path) -> None:
    beginning = threading.Thread(target=jobs.begin, args=(place, "8", os.getuid()))
    with (place / "jobs/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        beginning.start()
        beginning.join(0.2)
        assert not (place / "jobs/8").exists()
    beginning.join()
    assert (place / "jobs/8").is_dir()


def test_files_that_could_not_be_removed_are_removed_after_the_next_job(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in ("7", "8"):
        jobs.begin(place, job, os.getuid())
    (place / "loose").touch()
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda self, to: os.rmdir("/proc") if self.name == "7" else rename(self, to))
    assert jobs.end(place, "7") == ["jobs/7"]
    assert (place / "loose").exists()
    assert jobs.end(place, "8") == ["jobs/7"]
    assert not (place / "loose").exists()  # what stays of job 7 is no job
    monkeypatch.undo()
    jobs.begin(place, "9", os.getuid())
    assert jobs.end(place, "9") == []
    assert not any((place / "jobs").glob("[!.]*")) and not any((place / "jobs").glob(".over-*"))


def test_a_job_has_its_own_folder(place: Path) -> None:
    jobs.begin(place, "7", os.getuid())
    jobs.begin(place, "7", os.getuid())  # requeued
    status = (place / "jobs/7").stat()
    assert (status.st_mode & 0o777, status.st_uid) == (0o700, os.getuid())
    assert place.stat().st_mode & 0o7777 == 0o1777


def test_after_a_reboot_no_job_is_running(place: Path, cache: Cache) -> None:
    jobs.begin(place, "7", os.getuid())
    (place / "loose").touch()
    kept, _ = cache.fill(A, 1, writing("x"))
    (place / "cache" / f".{B}.new").mkdir()
    assert jobs.boot(place) == []
    assert list((place / "jobs").iterdir()) == [] and not (place / "loose").exists()
    assert kept.exists() and cache.entries()[0].jobs == () and not (place / "cache" / f".{B}.new").exists()


def test_files_that_cannot_be_removed_are_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "stuck").mkdir()
    monkeypatch.setattr(scratch_place.shutil, "rmtree", lambda *_, **__: None)
    assert scratch_place.empty(place) == ["stuck"]


USAGES: list[tuple[tuple[str, ...], int, str]] = [
    ((), 2, "got none"),
    (("get",), 2, "got none"),
    (("get", "../../etc"), 2, "got ../../etc"),
    (("fill", A, "many", "--", "true"), 2, "usage"),
    (("fill", A, "1", "true"), 2, "usage"),
    (("put", A), 2, "usage"),
    (("get", A), 1, ""),
    (("fill", A, "1", "--", "sh", "-c", "echo said; exit 9"), 9, "said"),
    (("fill", A, "1", "--", "no-such-command"), 2, "no-such-command"),
    (("fill", A, "9" * 20, "--", "true"), 3, "no room for"),
]


@pytest.fixture
def command(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """scratch-cache as jobs call it, of this place."""
    nodes = Path(scratch_cache.__file__).parents[2]
    program = (
        f"import sys; sys.path.insert(0, '{nodes}'); from pathlib import Path\n"
        "from gpucluster_node.scratch import cache as c\n"
        f"c.scratch_place.place = lambda: Path('{place}'); c.Cache._free = lambda self: 10**9; sys.exit(c.main())"
    )

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*PYTHON, program, *words], capture_output=True, text=True, check=False)

    return call


@pytest.mark.parametrize(("words", "status", "said"), USAGES)
def test_the_command_reports_errors(
    command: Callable[..., object], words: tuple[str, ...], status: int, said: str
) -> None:
    done = command(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def test_the_command_prints_the_folder_and_nothing_else(command: Callable[..., object], place: Path) -> None:
    done = command("fill", A, "1", "--", "sh", "-c", "echo noise; pwd >where")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{place}/cache/{A}\n", "noise\n")
    assert command("get", A).stdout == f"{place}/cache/{A}\n"
    assert command("list").stdout.startswith(f"{A} ")
