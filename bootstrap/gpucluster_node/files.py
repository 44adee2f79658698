"""Writes files that others read at any time, and locks files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


def put(path: Path, text: str, *, on_disk: bool = False) -> None:
    """Readers see either the old file or the new one. on_disk: also after a crash of the machine."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w") as file:
        file.write(text)
        if on_disk:
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)


def try_lock(file: IO[str], how: int = fcntl.LOCK_EX) -> bool:
    """Whether no other program has locked the file. Then this one has, until it closes the file or ends, also if it is
    killed. how: fcntl.LOCK_EX or LOCK_SH."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
