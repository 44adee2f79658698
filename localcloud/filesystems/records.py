"""The record of each file's copy in S3: kept with the file, so that it is renamed and deleted with it.

It is an extended attribute that only root sees. A copy of the file with the attribute is another file, which its inode
shows.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = ("user" if os.geteuid() else "trusted") + ".localcloud.s3"

EXISTS, DIRTY, RELEASED, ARCHIVED = 0x1, 0x2, 0x4, 0x8
"""Lustre's flags of a file's state."""


@dataclass(frozen=True)
class Signature:
    """The state of a file when it and its object were last the same. A directory's has no size and no time."""

    size: int
    mtime_ns: int
    mode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, found: os.stat_result) -> Signature:
        folder = stat.S_ISDIR(found.st_mode)
        size, time = (0, 0) if folder else (found.st_size, found.st_mtime_ns)
        return cls(size, time, found.st_mode, found.st_uid, found.st_gid)

    def same_content(self, other: Signature) -> bool:
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


@dataclass(frozen=True)
class Record:
    inode: int
    uri: str  # of its object
    signature: Signature
    released: bool = False


def load(path: Path | str) -> Record | None:
    try:
        kept = json.loads(os.getxattr(path, _NAME, follow_symlinks=_followed(path)))
    except OSError:
        return None
    record = Record(kept["inode"], kept["uri"], Signature(**kept["signature"]), kept["released"])
    return record if os.stat(path, follow_symlinks=_followed(path)).st_ino == record.inode else None


def save(path: Path | str, record: Record) -> None:
    os.setxattr(path, _NAME, json.dumps(asdict(record)).encode(), follow_symlinks=_followed(path))


def state(path: Path | str) -> int:
    """As `lfs hsm_state` shows it. A change of owner or permissions does not make a file dirty."""
    record = load(path)
    if record is None:
        return 0
    changed = not record.signature.same_content(Signature.of(os.lstat(path)))
    return EXISTS | ARCHIVED | (RELEASED if record.released else 0) | (DIRTY if changed else 0)


def _followed(path: Path | str) -> bool:
    """Links in /proc/self/fd stand for open files; others are separate files."""
    return str(path).startswith("/proc/self/fd/")
