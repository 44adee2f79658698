"""Files that programs of Slurm leave in a folder for a daemon of root.

Slurm's user may write into the folder and nothing more, but anything: a file is data to check.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path

MOST_FILES = 1000
"""In one look."""


class InvalidError(ValueError):
    """The file is none that our programs write."""


def waiting(folder: Path) -> list[Path]:
    """The oldest first."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        named = islice((each for each in entries if not each.name.startswith(".")), MOST_FILES)
        found = [(each.stat(follow_symlinks=False).st_mtime, each.path) for each in named]
        return [Path(path) for _, path in sorted(found)]
    return []


def _owners() -> frozenset[int]:
    return frozenset({0, pwd.getpwnam("slurm").pw_uid})


def content(path: Path, owners: Collection[int] | None, most_bytes: int) -> tuple[bytes, float]:
    """Its first bytes, and when it was written. A link, a pipe or a device is not followed or waited for. owners: uids
    whose files count; None: root's and that of Slurm's user. Raises InvalidError, OSError."""
    counted = _owners() if owners is None else owners
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidError(f"{path.name!a} cannot be opened: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidError(f"{path.name!a} is no file")
        if found.st_uid not in counted:
            raise InvalidError(f"{path.name!a} is owned by uid {found.st_uid}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes), found.st_mtime
    finally:
        os.close(descriptor)


def discard(path: Path) -> bool:
    """Whether it is gone."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return not os.path.lexists(path)
