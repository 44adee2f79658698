"""This machine's disk: temporary files that are renamed when complete, and messages for errors of the disk."""

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
    """A unique name that shows which process it belongs to."""
    return folder / f"{name}.{socket.gethostname()}.{os.getpid()}{_TEMPORARY}"


def drop_temporary(folder: Path) -> None:
    """Deletes incomplete files of this machine's processes that were killed."""
    for file in folder.glob(f"*.{socket.gethostname()}.*{_TEMPORARY}"):
        process = file.name.removesuffix(_TEMPORARY).rpartition(".")[2]
        if not process.isdigit() or not _runs(process):
            file.unlink(missing_ok=True)


def _runs(process: str) -> bool:
    """False for a zombie: a process that has ended and was not waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def scratch_folder() -> Path:
    """This user's folder on this machine. Always the same, so that a later run finds the files of a killed one."""
    folder = Path(tempfile.gettempdir()) / f"gpucluster-shards-{os.getuid()}"
    with writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise DataError(f"{folder}: belongs to another user", "set TMPDIR to one of your own folders")
    return folder


def cannot(what: str, name: str, error: OSError) -> DataError:
    reason = (error.strerror or str(error)).lower()
    return DataError(f"cannot {what} {name}: {reason}")


def read_error(path: str, error: OSError) -> DataError:
    failure = cannot("read", path, error)
    failure.hint = "check the disk or its server, and run the same command again: complete shards are kept"
    return failure


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from None


def write_error(path: Path | str, error: OSError) -> DataError:
    """A full disk is the usual case."""
    failure = cannot("write", str(path), error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        failure.hint = "free space and run the same command again: complete shards are kept"
    return failure
