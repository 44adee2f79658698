"""Tar files as shards: reads their samples in order, and unpacks them. Truncated and damaged files are detected.

Plain files, which `gpucluster data shard`, webdataset and GNU tar write, are read here; from the first other entry on,
Python's tarfile reads the rest: PAX and GNU headers, long names, sparse files, links.

A sample is a group of adjacent files with the same name, `0001.jpg` and `0001.cls`, as in webdataset (base_plus_ext and
group_by_keys in its tariterators.py): suffixes are in lower case and stand once in a sample. Files without a suffix,
`__meta__` and hidden files are no part of one; webdataset makes samples of those in folders, macOS's `a/._1.jpg`.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import struct
import sys
import tarfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Dict, Optional, Tuple, cast

from gpucluster_train.channels import ChannelError

Sample = Dict[str, Any]
"""`__key__`, a str, and for each file's suffix its bytes."""
KEY = "__key__"
BLOCK_BYTES = 512
END = "its end-of-archive marker is missing"
_END = bytes(BLOCK_BYTES)
_FIELDS = struct.Struct("100s24x11sc12x6s2sc100x5s83xB166x").unpack
"""Name, size and checksum, each with what ends it, kind, magic, and the first byte of the prefix."""
_ENCODING = sys.getfilesystemencoding()
"""tarfile's default."""
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
            raise _truncated(what, END)


class _Header(tarfile.TarInfo):
    """tarfile takes a damaged header for the end of the file, unless it is the first one."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> _Header:
        try:
            return super().fromtarfile(tar)
        except tarfile.InvalidHeaderError as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from None


@contextmanager
def _whole(what: str) -> Iterator[None]:
    """Raises ChannelError if the file that the body reads is not complete."""
    try:
        yield
    except _BROKEN as error:
        raise _truncated(what, error) from None


def _truncated(what: str, why: object) -> ChannelError:
    return ChannelError(f"{what}: is truncated or not a tar file ({why}): copy it again")


def _unzipped(stream: IO[bytes], what: str) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if what.endswith((".gz", ".tgz")) else stream


def _members(stream: IO[bytes], what: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """The files in it and their contents, in order, read once from start to end; a hard link has no content.

    Raises ChannelError.
    """
    read = _Counting(stream)
    with _whole(what):
        with tarfile.open(fileobj=cast("IO[bytes]", read), mode="r|", tarinfo=_Header) as tar:
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


class _Ahead:
    """A stream whose first bytes were already read."""

    def __init__(self, first: bytes, stream: IO[bytes]) -> None:
        self._first, self._stream = io.BytesIO(first), stream

    def read(self, size: int = -1) -> bytes:
        return self._first.read(size) or self._stream.read(size)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    """Less only at the end: a pipe or a socket may give less at once."""
    data = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _plain(header: bytes) -> tuple[str, int] | None:
    """Name and size; a folder's name ends with a slash. None if it is not the header of a plain file or folder: tarfile
    decides what it is.

    POSIX.1-1988, and GNU's variant of it. Its checksum is the sum of its bytes, with spaces for the checksum itself;
    the lower half of an Adler-32 is 1 + the sum of all bytes, modulo 65521.
    """
    if len(header) < BLOCK_BYTES:
        return None
    name, digits, end, said, rest, kind, magic, prefix = _FIELDS(header)
    if magic != b"ustar" or prefix or kind not in b"05" or rest != b"\0 " or end not in b"\0 ":
        return None
    try:
        size, total = int(digits, 8), int(said, 8)
    except ValueError:
        return None
    if (zlib.adler32(header) & 0xFFFF) != (total + sum(said) - 7 * ord(" ") + 1) % 65521 or size < 0:
        return None
    text = name.partition(b"\0")[0].decode(_ENCODING, "surrogateescape")
    return (text, size) if kind == b"0" else (f"{text.rstrip('/')}/", 0)


_File = Tuple[str, bytes]
_Rest = Optional[bytes]
"""A header that is not plain, or what there is of it; None if the archive has ended."""


def _plain_files(stream: IO[bytes], what: str) -> Generator[_File, None, _Rest]:
    """The plain files at its start: one read for a file and the header after it."""
    read = stream.read
    header = _exactly(stream, BLOCK_BYTES)
    while found := _plain(header):
        name, size = found
        data = read(size)
        if len(data) < size:
            data += _exactly(stream, size - len(data))
        if len(data) < size:
            raise _truncated(what, "unexpected end of data")
        if name[-1:] != "/":
            yield name, data
        padding = -size % BLOCK_BYTES
        header = read(padding + BLOCK_BYTES)
        if len(header) < padding + BLOCK_BYTES:
            header += _exactly(stream, padding + BLOCK_BYTES - len(header))
        if len(header) < padding + BLOCK_BYTES:
            raise _truncated(what, END if len(header) >= padding else "unexpected end of data")
        header = header[padding:]
    return None if header == _END else header


def _next_archive(stream: IO[bytes]) -> bytes:
    """The first block after the end of an archive that is not of zeros. A pipe of SageMaker has its objects one after
    another."""
    while block := _exactly(stream, BLOCK_BYTES):
        if block.strip(b"\0"):
            return block
    return b""


def _files(stream: IO[bytes], what: str) -> Iterator[_File]:
    """Raises ChannelError."""
    with _whole(what):
        rest = yield from _plain_files(stream, what)
        while rest is None:  # read on to the end, which a program that writes into a pipe must reach
            if not (block := _next_archive(stream)):
                return
            rest = yield from _plain_files(cast("IO[bytes]", _Ahead(block, stream)), what)
    for member, content in _members(cast("IO[bytes]", _Ahead(rest, stream)), what):
        if content is None:
            advice = "pack it with tar --hard-dereference, or unpack the channel's shards"
            raise ChannelError(f"{what}: its {member.name} is a hard link to {member.linkname}: {advice}")
        with _whole(what):
            data = content.read()
        yield member.name, data


def _passed(stream: IO[bytes], count: int) -> int:
    """Passes over `count` samples without reading their contents. Returns how many are left to pass over: none, or all
    if it met something else than a plain file."""
    began, key, left = stream.tell(), "", count
    while found := _plain(_exactly(stream, BLOCK_BYTES)):
        name, size = found
        if not _is_metadata(name) and (parts := _split(name)) and parts[0] != key:
            if left == 0:
                stream.seek(-BLOCK_BYTES, os.SEEK_CUR)
                return 0
            key, left = parts[0], left - 1
        stream.seek(size + -size % BLOCK_BYTES, os.SEEK_CUR)
    stream.seek(began)
    return count


def samples(stream: IO[bytes], what: str, first: int = 0) -> Iterator[Sample]:
    """The samples from number `first` on. Raises ChannelError if the file is truncated, or cannot be grouped."""
    plain = _unzipped(stream, what)
    if first and plain is stream and stream.seekable():
        first = _passed(stream, first)
    yield from islice(_grouped(_files(plain, what), what), first, None)


def _grouped(files: Iterator[_File], what: str) -> Iterator[Sample]:
    current: Sample = {}
    skipped, unnamed = 0, ""
    for name, content in files:
        if _is_metadata(name):
            continue
        if (parts := _split(name)) is None:
            skipped, unnamed = skipped + 1, unnamed or name
            continue
        key, suffix = parts
        if current.get(KEY) != key:
            if current:
                yield current
            current = {KEY: key}
        if suffix in current:
            raise ChannelError(f"{what}: has {name} twice: in a sample each suffix stands once, in any case")
        current[suffix] = content
    if current:
        yield current
    elif skipped:
        why = "a name needs a suffix, such as 0001.jpg"
        raise ChannelError(f"{what}: none of its {skipped} files is part of a sample, first {unnamed}: {why}")


def _is_metadata(name: str) -> bool:
    """`__meta__`, and what is below `__meta__/`."""
    if not name.startswith("__"):
        return False
    top = name.partition("/")[0]
    return len(top) >= 4 and top.endswith("__")


def _split(name: str) -> tuple[str, str] | None:
    """`a/b.Seg.PNG`: `a/b` and `seg.png`. None if it is no part of a sample."""
    folder, slash, base = name.rpartition("/")
    stem, dot, suffix = base.partition(".")
    return (f"{folder}{slash}{stem}", suffix.lower()) if stem and dot else None


def unpack(path: Path, folder: Path, what: str) -> None:
    """Unpacks only its files, and nothing outside `folder`. Raises ChannelError, or OSError of the disk."""
    folder.mkdir(parents=True)
    with path.open("rb") as stream:
        for member, content in _members(_unzipped(stream, what), what):
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
