"""Stamps: what a file of the tier nightly proves, and whether that has changed since the file passed.

A test file names its subjects, as patterns of paths from the root of the repository:

    SUBJECTS = ["bootstrap/environments/*.txt", "bootstrap/steps/jobs/python_env.sh"]

COVERED_BY names beside it what tests these subjects at every push. The file's stamp in tests/stamps.json has a hash for
each pattern and one for the test file itself.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

FOLDERS = (Path("tests/nightly"), Path("localcloud/tests/nightly"))
"""With their subfolders. No two test files have the same name."""
FILE = Path("tests/stamps.json")


class SubjectsError(Exception):
    """A test file without valid subjects."""


@dataclass(frozen=True)
class Stamp:
    passed: str  # UTC
    commit: str
    seconds: int
    subjects: dict[str, str]

    def __str__(self) -> str:
        return f"passed {self.passed} at {self.commit} in {self.seconds} s"


@dataclass(frozen=True)
class State:
    stale: bool
    why: str

    def __str__(self) -> str:
        return self.why


def test_files(root: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (root / folder).rglob("test_*.py"))


def subjects(test_file: Path) -> list[str]:
    """Parses the file instead of importing it, so that a skipped tier costs nothing."""
    for statement in ast.parse(test_file.read_text()).body:
        if isinstance(statement, ast.Assign) and [ast.unparse(each) for each in statement.targets] == ["SUBJECTS"]:
            return _patterns(test_file, statement.value)
    raise SubjectsError(f"{test_file.name}: no SUBJECTS: name the files that it proves, as a list of patterns")


def _patterns(test_file: Path, value: ast.expr) -> list[str]:
    try:
        found = ast.literal_eval(value)
    except ValueError:
        found = None
    if isinstance(found, list) and found and all(isinstance(each, str) for each in found):
        return found
    raise SubjectsError(f"{test_file.name}: SUBJECTS must be a list of patterns, written out, got {ast.unparse(value)}")


def fingerprint(root: Path, test_file: Path) -> dict[str, str]:
    """A hash of the paths and contents behind each pattern. A pattern's * matches slashes too."""
    tracked = _files(root)
    patterns = [_name(root, test_file), *subjects(test_file)]
    return {pattern: _hash(root, test_file, pattern, tracked) for pattern in patterns}


def _files(root: Path) -> list[str]:
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted({name for name in names if name and (root / name).is_file()})


def _hash(root: Path, test_file: Path, pattern: str, tracked: list[str]) -> str:
    found = [name for name in tracked if fnmatchcase(name, pattern)]
    if not found:
        raise SubjectsError(f"{test_file.name}: SUBJECTS: no file matches {pattern!r}")
    digest = hashlib.sha256()
    for name in found:
        digest.update(f"{name}\0{hashlib.sha256((root / name).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def read(root: Path, test_file: Path) -> Stamp | None:
    found = _all(root).get(_name(root, test_file))
    return Stamp(**found) if found else None


def write(root: Path, test_file: Path, subjects: dict[str, str], seconds: float) -> Stamp:
    """Stamps of files that are gone go, too."""
    stamp = Stamp(datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), _commit(root), round(seconds), subjects)
    with _alone(root):
        stamps = _all(root) | {_name(root, test_file): asdict(stamp)}
        there = {name: stamps[name] for name in sorted(stamps) if (root / name).is_file()}
        new = root / FILE.with_suffix(".new")
        new.write_text(json.dumps(there, indent=1) + "\n")
        new.replace(root / FILE)
    return stamp


def _name(root: Path, test_file: Path) -> str:
    return test_file.relative_to(root).as_posix()


def _all(root: Path) -> dict[str, dict[str, Any]]:
    try:
        return json.loads((root / FILE).read_text()) if (root / FILE).is_file() else {}
    except ValueError as error:
        raise SystemExit(f"{FILE}: not JSON: {error}: resolve the merge, then run make stamp") from None


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Two runs in one clone do not lose each other's stamps."""
    folder = os.open((root / FILE).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _commit(root: Path) -> str:
    argv = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"


def state(root: Path, test_file: Path) -> State:
    """A file whose subjects are unknown runs, because it must not be skipped for that."""
    try:
        now = fingerprint(root, test_file)
    except SubjectsError as error:
        return State(True, str(error))
    stamp = read(root, test_file)
    if stamp is None:
        return State(True, "it has no stamp")
    if changed := [pattern for pattern in now if stamp.subjects.get(pattern) != now[pattern]]:
        return State(True, f"changed since it {stamp}: {', '.join(changed)}")
    if gone := stamp.subjects.keys() - now:
        return State(True, f"no longer among its subjects: {', '.join(sorted(gone))}")
    return State(False, str(stamp))
