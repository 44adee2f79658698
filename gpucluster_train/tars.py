"""Tar files as shards: their samples one after another, and unpacking. One that was cut off is not taken for whole.

A sample is what lies in the file side by side under one name, `0001.jpg` and `0001.cls`: the convention of WebDataset.
"""

from __future__ import annotations

import gzip
import os
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


def _members(stream: IO[bytes], what: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """The files in it and their contents, in their order, read once from front to back; a hard link has none.

    Raises ChannelError.
    """
    plain = cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if what.endswith((".gz", ".tgz")) else stream
    read = _Counting(plain)
    with _whole(what):
        with tarfile.open(fileobj=cast("IO[bytes]", read), mode="r|") as tar:
            for member in tar:
                _check_kind(member, what)
                if not member.isdir():
                    yield member, tar.extractfile(member) if member.isreg() else None
        read.check_end(tar.offset, what)


def _check_kind(member: tarfile.TarInfo, what: str) -> None:
    if member.issym():
        link = f"is a symbolic link to {member.linkname}: pack it with tar --dereference"
        raise ChannelError(f"{what}: its {member.name} {link}")
    if not (member.isreg() or member.isdir() or member.islnk()):
        raise ChannelError(f"{what}: its {member.name} is neither a file nor a folder: pack files alone")


def samples(stream: IO[bytes], what: str) -> Iterator[Sample]:
    """Raises ChannelError where the file ends before its end."""
    current: Sample = {}
    for member, content in _members(stream, what):
        if content is None:
            advice = "pack it with tar --hard-dereference, or unpack the channel's shards"
            raise ChannelError(f"{what}: its {member.name} is a hard link to {member.linkname}: {advice}")
        key, suffix = _split(member.name)
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
    """Its files alone, nothing outside of `folder`. Raises ChannelError, or OSError of the disk."""
    folder.mkdir(parents=True)
    with path.open("rb") as stream:
        for member, content in _members(stream, what):
            target = folder / member.name
            if not _is_below(target, folder):
                raise ChannelError(f"{what}: holds {member.name}, which would be unpacked outside of its folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                _link(member, target, folder, what)
                continue
            with _whole(what), target.open("wb") as file:
                shutil.copyfileobj(content, file, 2**20)


def _is_below(path: Path, folder: Path) -> bool:
    return ".." not in path.parts and path.is_relative_to(folder)


def _link(member: tarfile.TarInfo, target: Path, folder: Path, what: str) -> None:
    """A hard link names a file that was packed before it."""
    first = folder / member.linkname
    if not (_is_below(first, folder) and first.is_file()):
        why = f"is a link to {member.linkname}, which is no file before it: pack it with tar --hard-dereference"
        raise ChannelError(f"{what}: its {member.name} {why}")
    if first != target:
        target.unlink(missing_ok=True)
        os.link(first, target)
