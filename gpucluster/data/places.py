"""Where data lies: a folder, or a prefix in S3. Names are relative, with slashes.

What is written appears under its name whole or not at all, in both.
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
"""Beside shards of which some are still missing: their plan, and what is known of those that are there."""
_OF_THE_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EISDIR, errno.ELOOP)
"""Why reading fails again and again, however well the disk and the network are."""


class Place(Protocol):
    url: str
    """As the user writes it, without a slash at its end."""

    @property
    def address(self) -> str:
        """The same wherever one stands and however it is written."""
        ...

    def listed(self) -> Iterator[str]:
        """Files at any depth. Raises UsageError where there is nothing at all."""
        ...

    def sizes(self, folder: str = "") -> dict[str, int]:
        """In bytes, of the files right in it; none where it is not there."""
        ...

    def contents(self, names: Iterable[str]) -> Iterator[Content]:
        """Each file's, in order; for one that is not there, or not ours to read, the reason.

        Raises GpuClusterError where reading fails otherwise: that is no flaw of the file.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """None where it is not there."""
        ...

    def part(self, name: str, start: int, end: int) -> bytes:
        """Its bytes from `start` to before `end`. Raises GpuClusterError."""
        ...

    def opened(self, name: str) -> BinaryIO:
        """To read from begin to end. Raises GpuClusterError."""
        ...

    def write(self, name: str, content: bytes) -> None: ...

    def workshop(self) -> Path:
        """A folder of this machine where files grow that are to be `adopt`ed."""
        ...

    def adopt(self, name: str, file: Path) -> None: ...

    def remove(self, names: Iterable[str]) -> None: ...

    def clear(self, folder: str) -> None:
        """Away with it and all in it."""
        ...

    def inner(self, folder: str) -> Place: ...


class Folder:
    def __init__(self, url: str) -> None:
        self.url = url
        self._path = Path(url).expanduser()

    @property
    def address(self) -> str:
        return os.path.abspath(self._path)

    def listed(self) -> Iterator[str]:
        if not self._path.is_dir():
            what = "is not a folder" if self._path.exists() else "no such folder"
            raise UsageError(f"{self.url}: {what}", "name a folder of images, a file list, or s3://BUCKET/PREFIX")
        # by folder, where it and those above it really are: a link may lead back to one of them
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
        """On the same file system, or a file could not take its name in one step."""
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


def place(url: str) -> Place:
    """Raises UsageError."""
    if in_s3(url):
        return Prefix(S3Uri.of(url))
    if "://" in url:
        raise UsageError(f"{url}: must be a path or s3://BUCKET/PREFIX")
    return Folder(url.rstrip("/") or "/")
