"""Tar files as shards: their samples one after another, and unpacking. One that was cut off is not taken for whole.

A sample is what lies in the file side by side under one name, `0001.jpg` and `0001.cls`: the convention of WebDataset.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from gpucluster_train.channels import ChannelError

Sample = dict[str, Any]
"""`__key__`, a str, and for each file's suffix its bytes."""
KEY = "__key__"
BLOCK_BYTES = 512
_BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


class _Counting:
    """How much was read: a whole tar file has a block of zeros behind its last file, one that was cut off has none."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.size = stream, 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.size += len(data)
        return data

    def check_end(self, last_file_ends: int, what: str) -> None:
        while self.read(2**20):
            pass
        if self.size < last_file_ends + BLOCK_BYTES:
            raise _truncated(what, "it lacks the end mark of a tar file")


@contextmanager
def _whole(what: str) -> Iterator[None]:
    """What is read within is, or ChannelError is raised."""
    try:
        yield
    except _BROKEN as error:
        raise _truncated(what, error) from None


def _truncated(what: str, why: object) -> ChannelError:
    return ChannelError(f"{what}: is truncated or no tar file ({why}): copy it again")


def _members(stream: IO[bytes], what: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of the files in it, in their order, read once from front to back. Raises ChannelError."""
    plain = cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if what.endswith((".gz", ".tgz")) else stream
    read = _Counting(plain)
    with _whole(what):
        with tarfile.open(fileobj=cast("IO[bytes]", read), mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content:
                    yield member.name, content
        read.check_end(tar.offset, what)


def samples(stream: IO[bytes], what: str) -> Iterator[Sample]:
    """Raises ChannelError where the file ends before its end."""
    current: Sample = {}
    for name, content in _members(stream, what):
        key, suffix = _split(name)
        if current and current[KEY] != key:
            yield current
            current = {}
        with _whole(what):
            current |= {KEY: key, suffix: content.read()}
    if current:
        yield current


def _split(name: str) -> tuple[str, str]:
    """`a/b.seg.png`: `a/b` and `seg.png`."""
    folder, slash, base = name.rpartition("/")
    stem, _, suffix = base.partition(".")
    return f"{folder}{slash}{stem}", suffix


def unpack(path: Path, folder: Path, what: str) -> None:
    """Its files alone: no links, nothing outside of `folder`. Raises ChannelError, or OSError of the disk."""
    folder.mkdir(parents=True)
    with path.open("rb") as stream:
        for name, content in _members(stream, what):
            target = folder / name
            if ".." in target.parts or not target.is_relative_to(folder):
                raise ChannelError(f"{what}: holds {name}, which would be unpacked outside of its folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            with _whole(what), target.open("wb") as file:
                shutil.copyfileobj(content, file, 2**20)
