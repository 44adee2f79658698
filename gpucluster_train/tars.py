"""Tar files as shards: reads their samples in order, and unpacks them. Truncated files are detected.

A sample is a group of adjacent files with the same name, `0001.jpg` and `0001.cls`, as in webdataset (base_plus_ext and
group_by_keys in its tariterators.py): suffixes are in lower case and stand once in a sample. Files without a suffix,
`__meta__` and hidden files are no part of one; webdataset makes samples of those in folders, macOS's `a/._1.jpg`.
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
from typing import IO, Any, Dict, cast

from gpucluster_train.channels import ChannelError

Sample = Dict[str, Any]
"""`__key__`, a str, and for each file's suffix its bytes."""
KEY = "__key__"
BLOCK_BYTES = 512
_BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


class _Counting:
    """Counts what was read: a complete tar file has a block of zeros after its last file, a truncated one has none."""

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
            raise _truncated(what, "its end-of-archive marker is missing")


@contextmanager
def _whole(what: str) -> Iterator[None]:
    """Raises ChannelError if the file that the body reads is not complete."""
    try:
        yield
    except _BROKEN as error:
        raise _truncated(what, error) from None


def _truncated(what: str, why: object) -> ChannelError:
    return ChannelError(f"{what}: is truncated or not a tar file ({why}): copy it again")


def _members(stream: IO[bytes], what: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """The files in it and their contents, in order, read once from start to end; a hard link has no content.

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
        raise ChannelError(f"{what}: its {member.name} is neither a file nor a folder: pack only files")


def samples(stream: IO[bytes], what: str) -> Iterator[Sample]:
    """Raises ChannelError if the file is truncated, or cannot be grouped."""
    current: Sample = {}
    skipped, first = 0, ""
    for member, content in _members(stream, what):
        if content is None:
            advice = "pack it with tar --hard-dereference, or unpack the channel's shards"
            raise ChannelError(f"{what}: its {member.name} is a hard link to {member.linkname}: {advice}")
        if _is_metadata(member.name):
            continue
        if (parts := _split(member.name)) is None:
            skipped, first = skipped + 1, first or member.name
            continue
        key, suffix = parts
        if current.get(KEY) != key:
            if current:
                yield current
            current = {KEY: key}
        if suffix in current:
            raise ChannelError(f"{what}: has {member.name} twice: in a sample each suffix stands once, in any case")
        with _whole(what):
            current[suffix] = content.read()
    if current:
        yield current
    elif skipped:
        why = "a name needs a suffix, such as 0001.jpg"
        raise ChannelError(f"{what}: none of its {skipped} files is part of a sample, first {first}: {why}")


def _is_metadata(name: str) -> bool:
    """`__meta__`, and what is below `__meta__/`."""
    top = name.partition("/")[0]
    return len(top) >= 4 and top.startswith("__") and top.endswith("__")


def _split(name: str) -> tuple[str, str] | None:
    """`a/b.Seg.PNG`: `a/b` and `seg.png`. None if it is no part of a sample."""
    folder, slash, base = name.rpartition("/")
    stem, dot, suffix = base.partition(".")
    return (f"{folder}{slash}{stem}", suffix.lower()) if stem and dot else None


def unpack(path: Path, folder: Path, what: str) -> None:
    """Unpacks only its files, and nothing outside `folder`. Raises ChannelError, or OSError of the disk."""
    folder.mkdir(parents=True)
    with path.open("rb") as stream:
        for member, content in _members(stream, what):
            target = folder / member.name
            if not _is_below(target, folder):
                raise ChannelError(f"{what}: has {member.name}, which would be unpacked outside its folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                _link(member, target, folder, what)
                continue
            with _whole(what), target.open("wb") as file:
                shutil.copyfileobj(content, file, 2**20)


def _is_below(path: Path, folder: Path) -> bool:
    return ".." not in path.parts and folder in (path, *path.parents)


def _link(member: tarfile.TarInfo, target: Path, folder: Path, what: str) -> None:
    """A hard link names an earlier file of the archive."""
    first = folder / member.linkname
    if not (_is_below(first, folder) and first.is_file()):
        why = f"is a link to {member.linkname}, which is not an earlier file: pack it with tar --hard-dereference"
        raise ChannelError(f"{what}: its {member.name} {why}")
    if first != target:
        target.unlink(missing_ok=True)
        os.link(first, target)
