"""Locations of data: a folder, or a prefix in S3. Names are relative, with slashes.

In both, a written file appears under its name only when it is complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from gpucluster.addresses import S3Uri, in_s3
from gpucluster.data.disk import Content, cannot, read_error, temporary, writing
from gpucluster.data.s3 import Prefix
from gpucluster.errors import UsageError

UNFINISHED = ".unfinished"
"""Beside an incomplete set of shards: their plan, and a record of those that exist."""
_OF_THE_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EISDIR, errno.ELOOP)
"""Errors of reading that do not go away, even if the disk and the network work."""


class Location(Protocol):
    url: str
    """As the user writes it, without a trailing slash."""

    @property
    def address(self) -> str:
        """An absolute, normalized address."""
        ...

    def listed(self) -> Iterator[str]:
        """Files at any depth. Raises UsageError if there are none."""
        ...

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Sizes in bytes of the files directly in it; empty if it does not exist."""
        ...

    def contents(self, names: Iterable[str]) -> Iterator[Content]:
        """Each file's content, in order; for a missing or unreadable file, the reason.

        Raises GpuClusterError if reading fails for another reason than the file.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """None if it does not exist."""
        ...

    def part(self, name: str, start: int, end: int) -> bytes:
        """Its bytes from `start` to before `end`. Raises GpuClusterError."""
        ...

    def opened(self, name: str) -> BinaryIO:
        """For reading from start to end. Raises GpuClusterError."""
        ...

    def write(self, name: str, content: bytes) -> None: ...

    def workshop(self) -> Path:
        """A folder of this machine for incomplete files, which `adopt` then moves."""
        ...

    def adopt(self, name: str, file: Path) -> None: ...

    def remove(self, names: Iterable[str]) -> None: ...

    def clear(self, folder: str) -> None:
        """Deletes the folder and its content."""
        ...

    def inner(self, folder: str) -> Location: ...


class Folder:
    def __init__(self, url: str) -> None:
        self.url = url
        self._path = Path(url).expanduser()

    @property
    def address(self) -> str:
        return os.path.abspath(self._path)

    def require(self, hint: str) -> None:
        """Raises UsageError if it is no folder."""
        if not self._path.is_dir():
            what = "is not a folder" if self._path.exists() else "no such folder"
            raise UsageError(f"{self.url}: {what}", hint)

    def listed(self) -> Iterator[str]:
        self.require("name a folder of images, a file list, or s3://BUCKET/PREFIX")
        # for each folder, the real paths of it and its parents: a link may lead back to one of them
        above = {str(self._path): frozenset({os.path.realpath(self._path)})}
        for folder, subfolders, names in os.walk(str(self._path), followlinks=True, onerror=_raise):
            here = above.pop(folder)
            real = {each: os.path.realpath(os.path.join(folder, each)) for each in sorted(subfolders)}
            subfolders[:] = [each for each in real if real[each] not in here]
            above |= {os.path.join(folder, each): here | {real[each]} for each in subfolders}
            relative = os.path.relpath(folder, self._path)
            yield from (name if relative == "." else f"{relative}/{name}" for name in names)

    def sizes(self, folder: str = "") -> dict[str, int]:
        try:
            with os.scandir(self._path / folder) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def contents(self, names: Iterable[str]) -> Iterator[Content]:
        root = str(self._path)
        for name in names:
            try:
                with open(os.path.join(root, name), "rb", buffering=0) as file:
                    yield file.read()
            except OSError as error:
                if error.errno not in _OF_THE_FILE:
                    raise read_error(f"{self.url}/{name}", error) from None
                yield cannot("read", name, error)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise cannot("read", f"{self.url}/{name}", error) from None

    def part(self, name: str, start: int, end: int) -> bytes:
        with self.opened(name) as file:
            file.seek(start)
            return file.read(end - start)

    def opened(self, name: str) -> BinaryIO:
        try:
            return open(self._path / name, "rb", buffering=1 << 20)
        except OSError as error:
            raise cannot("read", f"{self.url}/{name}", error) from None

    def write(self, name: str, content: bytes) -> None:
        with writing(self._path / name):
            (self._path / name).parent.mkdir(parents=True, exist_ok=True)
            new = temporary(self.workshop(), Path(name).name)
            try:
                new.write_bytes(content)
                self.adopt(name, new)
            finally:
                new.unlink(missing_ok=True)

    def workshop(self) -> Path:
        """On the same file system, because a file is renamed to its final name."""
        folder = self._path / UNFINISHED
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def adopt(self, name: str, file: Path) -> None:
        with writing(self._path / name):
            with open(file, "rb") as written:
                os.fsync(written.fileno())
            os.replace(file, self._path / name)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self._path / name).unlink(missing_ok=True)

    def clear(self, folder: str) -> None:
        for each, subfolders, names in os.walk(self._path / folder, topdown=False):
            for name in names:
                Path(each, name).unlink(missing_ok=True)
            for name in subfolders:
                Path(each, name).rmdir()
        with contextlib.suppress(FileNotFoundError):
            (self._path / folder).rmdir()

    def inner(self, folder: str) -> Folder:
        return Folder(f"{self.url}/{folder}") if folder else self


def _raise(error: OSError) -> None:
    raise cannot("read", error.filename, error)


def location(url: str) -> Location:
    """Raises UsageError."""
    if in_s3(url):
        return Prefix(S3Uri.of(url))
    if "://" in url:
        raise UsageError(f"{url}: must be a path or s3://BUCKET/PREFIX")
    return Folder(url.rstrip("/") or "/")
