"""A sample as the bytes of its record, in each format; and how many records a shard has. Pure.

The same sample gives the same bytes on every machine: no time, no user, no library's version is in them.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from gpucluster.data.crc32c import masked

LABEL = "cls"
"""The suffix of labels in a tar."""
BLOCK = 512
_TAR_FIELDS = (b"0000444\0", b"0000000\0", b"0000000\0")
"""Mode, user, group."""
_TAR_TIME = b"00000000000\0"
_TAR_LARGEST = 8**11
MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_RECORDIO_LARGEST = 1 << 29


@dataclass(frozen=True)
class Record:
    number: int
    """In the whole data set, in the order of the shards."""
    name: str
    """The name of its file, relative to its source."""
    label: int | None
    content: bytes

    @property
    def key(self) -> str:
        """Without a dot: for webdataset the extension begins at the first dot."""
        return f"{self.number:09d}"

    @property
    def extension(self) -> str:
        """The same for all JPEGs, because readers select a sample's parts by it."""
        suffix = self.name.rpartition("/")[2].rpartition(".")
        extension = suffix[2].lower() if suffix[0] and suffix[2] else "bin"
        return "jpg" if extension == "jpeg" else extension


@dataclass(frozen=True)
class Format:
    name: str
    suffix: str
    encode: Callable[[Record], bytes]
    """Raises ValueError if the format cannot hold the sample."""
    count: Callable[[BinaryIO], int]
    """Records of a shard. Raises ValueError if it is incomplete."""
    end: bytes = b""
    index: Callable[[Record, int], bytes] | None = None
    """The line of a record, and its place in the shard, in a file beside it."""
    index_begin: Callable[[int], bytes] = lambda count: b""
    """What that file begins with, for so many records."""
    needs_labels: bool = False


INDEX_SUFFIX = ".idx"


def tar(record: Record) -> bytes:
    """KEY.jpg and, if there is a label, KEY.cls, as in webdataset."""
    if record.label is not None and record.extension == LABEL:
        raise ValueError(f"its suffix .{LABEL} is that of labels: rename it, or list the files without labels")
    return b"".join(_member(f"{record.key}.{extension}", content) for extension, content in _parts(record))


def _parts(record: Record) -> list[tuple[str, bytes]]:
    label = [] if record.label is None else [(LABEL, b"%d" % record.label)]
    return [(record.extension, record.content), *label]


def _dali_begin(count: int) -> bytes:
    """DALI's index of a tar file, without which it reads the whole file first (index_file_version and create_index in
    its wds2idx.py, version 2.4)."""
    return b"v1.2 %d\n" % count


def _dali_line(record: Record, offset: int) -> bytes:
    """For each file its extension, the place and length of its content, and its name."""
    found = []
    for extension, content in _parts(record):
        found.append(f"{extension} {offset + BLOCK} {len(content)} {record.key}.{extension}")
        offset += BLOCK + len(content) + -len(content) % BLOCK
    return f"{' '.join(found)}\n".encode()


def _mxnet_line(record: Record, offset: int) -> bytes:
    return b"%d\t%d\n" % (record.number, offset)


def _member(name: str, content: bytes) -> bytes:
    padding = -len(content) % BLOCK
    return b"".join((_tar_header(name.encode(), len(content)), content, bytes(padding)))


def _tar_header(name: bytes, size: int) -> bytes:
    if len(name) > 100 or size >= _TAR_LARGEST:
        raise ValueError(f"a file in a tar has at most 8 GiB, got {size} bytes")
    fields = (name.ljust(100, b"\0"), *_TAR_FIELDS, b"%011o\0" % size, _TAR_TIME)
    before, after = b"".join(fields), b"0".ljust(101, b"\0") + b"ustar\x0000"
    header = b"".join((before, b" " * 8, after)).ljust(BLOCK, b"\0")
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def _count_tar(file: BinaryIO) -> int:
    """Counts keys: the parts of one sample are adjacent."""
    keys, last = 0, b""
    while (header := _exactly(file, BLOCK)) != bytes(BLOCK):
        key = header[:100].rstrip(b"\0").partition(b".")[0]
        keys, last = keys + (key != last), key
        size = int(header[124:135], 8)
        _skip(file, size + -size % BLOCK)
    return keys


def tfrecord(record: Record) -> bytes:
    """A `tf.train.Example` with the feature names of TensorFlow's ImageNet."""
    features = {"image/encoded": _bytes_feature(record.content), "image/filename": _bytes_feature(_name(record))}
    if record.label is not None:
        features["image/class/label"] = _int64_feature(record.label)
    example = _example(features)
    length = struct.pack("<Q", len(example))
    return b"".join((length, struct.pack("<I", masked(length)), example, struct.pack("<I", masked(example))))


def _name(record: Record) -> bytes:
    return record.name.encode(errors="surrogateescape")


def _example(features: Mapping[str, bytes]) -> bytes:
    """Sorted by name, so that the bytes do not depend on the order of the mapping."""
    entries = (_field(1, _field(1, name.encode()) + _field(2, feature)) for name, feature in sorted(features.items()))
    return _field(1, b"".join(entries))


def _bytes_feature(value: bytes) -> bytes:
    return _field(1, _field(1, value))


def _int64_feature(value: int) -> bytes:
    return _field(3, _field(1, _varint(value & (1 << 64) - 1)))


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    return b"".join((_varint(number << 3 | 2), _varint(len(content)), content))


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _count_tfrecord(file: BinaryIO) -> int:
    count = 0
    while length := file.read(8):
        if len(length) < 8 or struct.unpack("<I", _exactly(file, 4))[0] != masked(length):
            raise ValueError(f"the checksum of record {count}'s length is wrong")
        _skip(file, int.from_bytes(length, "little") + 4)
        count += 1
    return count


def recordio(record: Record) -> bytes:
    """MXNet's: a header with the label and the sample's number, then the file."""
    header = struct.pack("<IfQQ", 0, float(record.label or 0), record.number, 0)
    payload = header + record.content
    if len(payload) >= _RECORDIO_LARGEST:
        raise ValueError(f"a RecordIO record has at most 512 MiB, got {len(payload)} bytes")
    pieces = _pieces(payload)
    last = len(pieces) - 1
    return b"".join(_piece(_part(number, last), piece) for number, piece in enumerate(pieces))


def _pieces(payload: bytes) -> list[bytes]:
    """Cut where the magic word stands at a multiple of 4, and without it: a reader that starts in the middle of a file
    looks for that word, and must find beginnings of records only."""
    found, start = list[bytes](), 0
    at = payload.find(_MAGIC_BYTES)
    while at >= 0:
        if at % 4 == 0:
            found.append(payload[start:at])
            start = at + 4
        at = payload.find(_MAGIC_BYTES, at + (4 if at % 4 == 0 else 1))
    return [*found, payload[start:]]


def _part(number: int, last: int) -> int:
    """A complete record: 0; otherwise first part 1, middle 2, last 3."""
    if last == 0:
        return 0
    return 1 if number == 0 else 3 if number == last else 2


def _piece(part: int, content: bytes) -> bytes:
    return b"".join((struct.pack("<II", MAGIC, part << 29 | len(content)), content, bytes(-len(content) % 4)))


def _count_recordio(file: BinaryIO) -> int:
    count = 0
    while word := file.read(8):
        if len(word) < 8 or word[:4] != _MAGIC_BYTES:
            raise ValueError(f"record {count} does not begin with RecordIO's magic word")
        length = struct.unpack("<I", word[4:])[0]
        size = length & (1 << 29) - 1
        _skip(file, size + -size % 4)
        count += length >> 29 in (0, 3)
    return count


def _exactly(file: BinaryIO, size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        raise ValueError("it ends in the middle of a record")
    return found


def _skip(file: BinaryIO, size: int) -> None:
    """Reads the last byte, because seeking alone does not notice the end of the file."""
    if size:
        file.seek(size - 1, io.SEEK_CUR)
        _exactly(file, 1)


FORMATS = {
    each.name: each
    for each in (
        Format("tar", ".tar", tar, _count_tar, bytes(2 * BLOCK), _dali_line, _dali_begin),
        Format("tfrecord", ".tfrecord", tfrecord, _count_tfrecord),
        Format("recordio", ".rec", recordio, _count_recordio, index=_mxnet_line, needs_labels=True),
    )
}
