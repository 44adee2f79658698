"""What Slurm has to say of jobs: files in a folder, which its MailProg writes (bin/mail-request).

Slurm's user may write into the folder and nothing more, but anything: a file is data to check.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

FOLDER = Path("/run/gpucluster/mail")
MOST_FILES = 1000
"""In one look."""
MOST_BYTES = 1000
_NAME = re.compile(r"notice\.[A-Za-z0-9]+")
_FORM = re.compile(r"(\d{1,10}) (\d{1,10})\n([A-Z_]{1,40}) (\d{1,5})\n([A-Za-z/%0-9 ]{1,60})\n", re.ASCII)
_KINDS = {"Began": "start", "Ended": "end", "Failed": "failure", "Invalid dependency": "failure"}
"""Slurm's words for its types of mail: _mail_type_str in Slurm's src/slurmctld/agent.c. Others are of no interest."""


class InvalidError(ValueError):
    """The file is none that our program writes."""


@dataclass(frozen=True)
class Notice:
    uid: int
    job_id: str
    """For an array, that of the whole."""
    state: str
    """Slurm's base state: RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT …"""
    event: str
    """start, end or failure; empty: nobody is told."""


def waiting(folder: Path = FOLDER) -> list[Path]:
    """The oldest first."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        named = islice((each for each in entries if not each.name.startswith(".")), MOST_FILES)
        found = [(each.stat(follow_symlinks=False).st_mtime, each.path) for each in named]
        return [Path(path) for _, path in sorted(found)]
    return []


def read(path: Path, owners: Collection[int] | None = None) -> Notice:
    """owners: uids whose files count; without it, root's and that of Slurm's user. Raises InvalidError, OSError."""
    if not _NAME.fullmatch(path.name):
        raise InvalidError(f"{path.name!a} is no name of a notice")
    text = _content(path, owners if owners is not None else {0, pwd.getpwnam("slurm").pw_uid})
    found = _FORM.fullmatch(text)
    if not found:
        raise InvalidError(f"{path.name!a} is no notice: {text[:200]!a}")
    uid, job_id, state, exit_code, kind = found.groups()
    return Notice(int(uid), job_id, state, _event(state, int(exit_code), kind))


def _event(state: str, exit_code: int, kind: str) -> str:
    """Slurm says that an array ended, whatever became of its elements: its exit code is their greatest."""
    event = _KINDS.get(kind, "")
    return "failure" if event == "end" and (state != "COMPLETED" or exit_code) else event


def _content(path: Path, owners: Collection[int]) -> str:
    """A link, a pipe or a device is not followed or waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidError(f"{path.name!a} cannot be opened: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in owners:
            raise InvalidError(f"{path.name!a} is no file, or owned by uid {found.st_uid}")
        return os.read(descriptor, MOST_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


def discard(path: Path) -> bool:
    """Whether it is gone."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return not os.path.lexists(path)
