"""This machine's disk: files that grow until they can take their place, and what goes wrong with one, in words."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpucluster.errors import DataError, GpuClusterError

Content = bytes | GpuClusterError
_TEMPORARY = ".part"


def temporary(folder: Path, name: str) -> Path:
    """Nobody else's, and whose it is can be seen."""
    return folder / f"{name}.{socket.gethostname()}.{os.getpid()}{_TEMPORARY}"


def drop_temporary(folder: Path) -> None:
    """What a process of this machine left half-written when it was killed."""
    for file in folder.glob(f"*.{socket.gethostname()}.*{_TEMPORARY}"):
        process = file.name.removesuffix(_TEMPORARY).rpartition(".")[2]
        if not process.isdigit() or not _runs(process):
            file.unlink(missing_ok=True)


def _runs(process: str) -> bool:
    """Not one that has ended and that nobody has asked for its status yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def scratch_folder() -> Path:
    """On this machine, this user's. Always the same one, so that a later run finds what a killed one has left."""
    folder = Path(tempfile.gettempdir()) / f"gpucluster-shards-{os.getuid()}"
    with writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise DataError(f"{folder}: belongs to somebody else", "set TMPDIR to a folder of yours")
    return folder


def cannot(what: str, name: str, error: OSError) -> DataError:
    reason = (error.strerror or str(error)).lower()
    return DataError(f"cannot {what} {name}: {reason}")


def read_error(path: str, error: OSError) -> DataError:
    told = cannot("read", path, error)
    told.hint = "look after the disk or its server, and run the same command again: shards that are whole are kept"
    return told


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from None


def write_error(path: Path | str, error: OSError) -> DataError:
    """A full disk is the one that one meets."""
    told = cannot("write", str(path), error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        told.hint = "make room and run the same command again: shards that are whole are kept"
    return told
