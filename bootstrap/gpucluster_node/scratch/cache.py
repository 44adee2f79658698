"""Data sets on this node's own disks, kept between jobs by the hash of their content.

usage: scratch-cache get HASH                      prints the folder; exits with 1 if it does not exist
       scratch-cache fill HASH BYTES -- COMMAND…   prints the folder; if it does not exist, COMMAND creates it
       scratch-cache list                          hash, bytes, seconds since the last use, the jobs that use it

COMMAND runs in an empty folder with BYTES free for it, and its output goes to standard error. If it fails, nothing is
kept, and its exit code is returned. Data sets that a job requested stay until the job ends. The least recently used
others are deleted to make room. If that is not enough, nothing is deleted and the exit code is 3.

Run by the jobs' user, who owns the cache. `.state` has for each hash its record (HASH.json, whose time is that of the
last use), the jobs that use it (HASH.jobs/), and locks: a short one for all hashes, and one for each that is being
filled (HASH.filling, with its reserved bytes).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpucluster_node import locks
from gpucluster_node.scratch import place as scratch_place

STATE = ".state"
HASH = re.compile(r"[0-9a-f]{16,64}")
SPARE, SPARE_BYTES = 0.05, 10 * 10**9
"""The cache leaves this share of the file system free, or this size if that is less. It may be the root volume."""
NOT_THERE, WRONG_USAGE, NO_ROOM = 1, 2, 3


class NoRoom(Exception):
    """There is not enough room, even after removing all data sets that may be removed."""


@dataclass(frozen=True)
class Entry:
    hash: str
    bytes: int
    used: float
    jobs: tuple[str, ...]


class Cache:
    def __init__(self, folder: Path, job_id: str | None = None) -> None:
        """job_id: the job that uses the data sets; None outside of jobs."""
        self._folder, self._state, self._job_id = folder, folder / STATE, job_id
        self._state.mkdir(exist_ok=True)

    def get(self, hash_: str) -> Path | None:
        """Returns the data set's folder, which stays until the job's end; None if the cache does not have it."""
        with _locked(self._state / "lock"):
            if not (self._folder / hash_).is_dir():
                return None
            self._use(hash_)
        return self._folder / hash_

    def fill(self, hash_: str, size: int, command: Sequence[str]) -> tuple[Path, int]:
        """Returns the folder and the command's exit code: 0 if the command did not have to run. Raises NoRoom."""
        filling = self._state / f"{hash_}.filling"
        with _locked(filling):
            if found := self.get(hash_):
                return found, 0
            with _locked(self._state / "lock"):
                filling.write_text("")  # left by a process that did not end normally
                self._make_room(size + self._promised())
                filling.write_text(str(size))
            try:
                return self._folder / hash_, self._filled(hash_, command)
            finally:
                filling.write_text("")

    def _filled(self, hash_: str, command: Sequence[str]) -> int:
        new = self._folder / f".{hash_}.new"
        _discard(new)
        new.mkdir()
        try:
            status = subprocess.run(command, cwd=new, stdout=sys.stderr.fileno(), check=False).returncode
            if status == 0:
                self._keep(hash_, new)
        finally:
            _discard(new)
        return status if status >= 0 else 128 - status

    def _keep(self, hash_: str, new: Path) -> None:
        (self._state / f"{hash_}.json").write_text(json.dumps({"bytes": _protect(new)}))
        # Otherwise, after a power failure, the machine could have the folder without the files' contents.
        subprocess.run(["sync", "-f", str(new)], check=True)
        with _locked(self._state / "lock"):
            new.rename(self._folder / hash_)
            self._use(hash_)

    def _use(self, hash_: str) -> None:
        os.utime(self._state / f"{hash_}.json")
        if self._job_id:
            (self._state / f"{hash_}.jobs").mkdir(exist_ok=True)
            (self._state / f"{hash_}.jobs" / self._job_id).touch()

    def entries(self) -> list[Entry]:
        """The data sets, the least recently used one first."""
        found = (self._entry(folder.name) for folder in self._folder.iterdir() if HASH.fullmatch(folder.name))
        return sorted(found, key=lambda each: each.used)

    def _entry(self, hash_: str) -> Entry:
        known = self._state / f"{hash_}.json"
        marks = self._state / f"{hash_}.jobs"
        jobs = tuple(sorted(mark.name for mark in marks.iterdir())) if marks.is_dir() else ()
        return Entry(hash_, json.loads(known.read_text())["bytes"], known.stat().st_mtime, jobs)

    def _make_room(self, size: int) -> None:
        """The caller holds the lock. If it raises NoRoom, it has removed nothing."""
        short = size - self._free()
        going: list[Entry] = []
        for entry in self.entries():
            if short > 0 and not entry.jobs:
                going.append(entry)
                short -= entry.bytes
        if short > 0:
            used = sum(entry.bytes for entry in self.entries() if entry.jobs)
            raise NoRoom(
                f"no room for {_gb(size)} in {self._folder}: {_gb(short)} short, even without unused data sets; "
                f"jobs use {_gb(used)} of data sets, and other files of theirs are beside the cache"
            )
        for entry in going:
            self._remove(entry.hash)

    def _promised(self) -> int:
        """Bytes that running fills still need. If a process ends, its lock ends too, and its bytes no longer count."""
        return sum(
            max(0, int(path.read_text() or 0) - _size(self._folder / f".{path.stem}.new"))
            for path in self._state.glob("*.filling")
            if path.read_text() and _is_held(path)
        )

    def _free(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize - min(int(disk.f_blocks * disk.f_frsize * SPARE), SPARE_BYTES)

    def _remove(self, hash_: str) -> None:
        going = self._folder / f".{hash_}.gone"
        _discard(going)  # left by a killed process
        (self._folder / hash_).rename(going)
        _discard(going)
        (self._state / f"{hash_}.json").unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_held(path: Path) -> bool:
    with path.open("a") as file:
        return not locks.take(file)


def _protect(folder: Path) -> int:
    """Makes the folder read-only, so that the next job finds the same content. Returns its bytes on the disk."""
    size = 0
    for path in _files(folder):
        status = path.lstat()
        size += status.st_blocks * 512
        if not path.is_symlink():
            path.chmod(status.st_mode & 0o555)
    for path in _folders(folder):
        path.chmod(0o555)
    return size


def _discard(folder: Path) -> None:
    """Removes read-only files too. Root ignores modes, so it changes none: a link could lead it to another folder."""
    if os.geteuid() != 0:
        for path in _folders(folder):
            with suppress(OSError):
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _folders(folder: Path) -> Iterator[Path]:
    """The folder and those in it, parents first."""
    if folder.is_dir():
        yield folder
    for root, below, _ in os.walk(folder):
        yield from (Path(root, name) for name in below if not Path(root, name).is_symlink())


def _size(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names)


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def jobs(folder: Path) -> set[str]:
    """Jobs that have asked for a data set."""
    return {mark.name for mark in folder.glob(f"{STATE}/*.jobs/*")}


def forget_job(folder: Path, job_id: str) -> None:
    for mark in folder.glob(f"{STATE}/*.jobs/{job_id}"):
        mark.unlink(missing_ok=True)


def discard_unfinished(folder: Path) -> None:
    """Removes incomplete data sets, except those that are being filled. A process that is about to fill one waits until
    it is removed."""
    for path in folder.glob(".*.new"):
        with _unless_held(folder / STATE / f"{path.name[1:].removesuffix('.new')}.filling") as nobody_fills:
            if nobody_fills:
                _discard(path)
    for path in folder.glob(".*.gone"):
        _discard(path)


@contextmanager
def _unless_held(lock: Path) -> Iterator[bool]:
    """Yields whether the lock is free. Does not create its file: root would own it, and the jobs' user could not open
    it."""
    try:
        file = lock.open()
    except FileNotFoundError:
        yield True
        return
    with file:
        yield locks.take(file)


def _listed(cache: Cache, now: float) -> str:
    rows = (f"{each.hash} {each.bytes} {now - each.used:.0f} {','.join(each.jobs) or '-'}" for each in cache.entries())
    return "".join(f"{row}\n" for row in rows)


def run(arguments: Sequence[str], cache: Cache) -> int:
    """Returns the exit code. Raises NoRoom, OSError; ValueError for wrong usage."""
    verb, *rest = arguments or [""]
    if verb == "list" and not rest:
        print(_listed(cache, time.time()), end="")
        return 0
    if not rest or not HASH.fullmatch(rest[0]):
        raise ValueError(f"a hash has 16 to 64 hexadecimal digits, got {' '.join(rest[:1]) or 'none'}")
    if verb == "get" and len(rest) == 1:
        found, status = cache.get(rest[0]), NOT_THERE
    elif verb == "fill" and len(rest) > 3 and rest[1].isdecimal() and rest[2] == "--":
        found, status = cache.fill(rest[0], int(rest[1]), rest[3:])
        found = None if status else found
    else:
        raise ValueError("usage: scratch-cache get HASH | fill HASH BYTES -- COMMAND… | list")
    if found:
        print(found)
    return 0 if found else status


def main() -> int:
    place = scratch_place.place() / scratch_place.CACHE
    try:
        return run(sys.argv[1:], Cache(place, os.environ.get("SLURM_JOB_ID")))
    except NoRoom as error:
        status, said = NO_ROOM, str(error)
    except (ValueError, OSError) as error:
        status, said = WRONG_USAGE, str(error)
    print(f"scratch-cache: {said}", file=sys.stderr)
    return status
