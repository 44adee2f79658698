"""Records of shards, held against bytes that the frameworks' own writers wrote."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucluster.data import crc32c
from gpucluster.data.records import FORMATS, MAGIC, Record, recordio, tar, tfrecord

WORD = struct.pack("<I", MAGIC)
MXNET_PAYLOADS = [
    b"plain", WORD, b"abcd" + WORD + b"efgh", b"a" + WORD + b"xyz" + WORD + WORD, WORD + WORD, b"",
    b"ab" + WORD + b"cdefgh" + WORD + b"zz",
]  # fmt: skip
# MXNet 1.9.1: MXIndexedRecordIO("…", "…", "w")
# .write_idx(i, pack(IRHeader(0, float(i), i, 0), payload)) for each of these
MXNET_FILE = (
    "CiPXzh0AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABwbGFpbgAAAAoj184YAAAgAAAAAAAAgD8BAAAAAAAAAAAAAAAAAAAACiPXzgAAAGAKI9fO"
    "HAAAIAAAAAAAAABAAgAAAAAAAAAAAAAAAAAAAGFiY2QKI9fOBAAAYGVmZ2gKI9fOIAAAIAAAAAAAAEBAAwAAAAAAAAAAAAAAAAAAAGEKI9fOeHl6"
    "CiPXzgAAAEAKI9fOAAAAYAoj184YAAAgAAAAAAAAgEAEAAAAAAAAAAAAAAAAAAAACiPXzgAAAEAKI9fOAAAAYAoj184YAAAAAAAAAAAAoEAFAAAA"
    "AAAAAAAAAAAAAAAACiPXziQAACAAAAAAAADAQAYAAAAAAAAAAAAAAAAAAABhYgoj185jZGVmZ2gKI9fOAgAAYHp6AAA="
)
# TensorFlow 2.15.1: TFRecordWriter of tf.train.Example(…).SerializeToString(deterministic=True) of these
TENSORFLOW_SAMPLES = [
    ("c/a.jpg", 0, b"x"),
    ("c/é.jpg", 999, b"y" * 300),
    ("b.jpg", None, b"\0"),
    ("b.jpg", -1, bytes(20000)),
]
TENSORFLOW_SHA256 = "de15315b1c651c858b538c2b34163cbb6ad39242d72e16021fdfd7a5149f5f52"


@pytest.mark.parametrize("crc", [crc32c.in_python, crc32c.function()], ids=["in Python", "of this machine"])
def test_crc32c_is_castagnolis(crc: crc32c.Crc) -> None:
    """Test vectors of RFC 3720, B.4."""
    assert crc(bytes(32)) == 0x8A9136AA
    assert crc(b"\xff" * 32) == 0x62A8AB43
    assert crc(bytes(range(32))) == 0x46DD794E
    assert crc(b"") == 0


@given(st.binary(max_size=300))
def test_both_crcs_agree(content: bytes) -> None:
    assert crc32c.function()(content) == crc32c.in_python(content)


def test_recordio_is_what_mxnet_writes() -> None:
    ours = (recordio(Record(number, "x", number, payload)) for number, payload in enumerate(MXNET_PAYLOADS))
    assert b"".join(ours) == base64.b64decode(MXNET_FILE)


def test_tfrecord_is_what_tensorflow_writes() -> None:
    ours = b"".join(tfrecord(Record(0, *sample)) for sample in TENSORFLOW_SAMPLES)
    assert hashlib.sha256(ours).hexdigest() == TENSORFLOW_SHA256


# DALI 2.4.0: wds2idx.IndexCreator(…).create_index() of a tar file with these
DALI_SAMPLES = [("a/x.JPEG", 3, 513), ("y.png", 12, 1), ("z.seg.jpg", 0, 512)]
DALI_INDEX = """\
v1.2 3
jpg 512 513 000000007.jpg cls 2048 1 000000007.cls
png 3072 1 000000008.png cls 4096 2 000000008.cls
jpg 5120 512 000000009.jpg cls 6144 1 000000009.cls
"""


def test_the_index_of_a_tar_file_is_what_dali_writes() -> None:
    kind, index, offset = FORMATS["tar"], b"", 0
    assert kind.index
    for number, (name, label, size) in enumerate(DALI_SAMPLES, start=7):
        record = Record(number, name, label, bytes(size))
        index += kind.index(record, offset)
        offset += len(kind.encode(record))
    assert (kind.index_begin(3) + index).decode() == DALI_INDEX


def test_pythons_reader_accepts_our_tar_files() -> None:
    records = [Record(0, "a/b.JPEG", 7, b"x" * 513), Record(1, "a/c.d.png", None, b""), Record(2, "noise", 0, b"y")]
    with tarfile.open(fileobj=io.BytesIO(b"".join(map(tar, records)) + FORMATS["tar"].end)) as read:
        found = {member.name: read.extractfile(member).read() for member in read}  # type: ignore[union-attr]
        assert {(member.mtime, member.uid, member.mode) for member in read} == {(0, 0, 0o444)}
    assert found == {
        "000000000.jpg": b"x" * 513, "000000000.cls": b"7", "000000001.png": b"", "000000002.bin": b"y",
        "000000002.cls": b"0",
    }  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
@given(contents=st.lists(st.binary(max_size=2000) | st.just(b"ab" + WORD * 3), max_size=5))
def test_records_are_counted_and_a_cut_off_shard_is_noticed(format: str, contents: list[bytes]) -> None:
    kind = FORMATS[format]
    records = (kind.encode(Record(number, "a.jpg", number, content)) for number, content in enumerate(contents))
    shard = b"".join(records) + kind.end
    assert kind.count(io.BytesIO(shard)) == len(contents)
    if contents:
        with pytest.raises(ValueError):
            kind.count(io.BytesIO(shard[: len(shard) - len(kind.end) - 1]))


def test_samples_that_a_format_cannot_store_are_refused() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return 8**11

    with pytest.raises(ValueError, match="a file in a tar has at most 8 GiB"):
        tar(Record(0, "a.jpg", 0, Large()))


def test_the_package_imports_only_python_and_its_own_errors() -> None:
    """It is shipped with jobs to nodes that have only Python."""
    folder = Path(crc32c.__file__).parent
    imported = {
        line.split()[1]
        for path in folder.glob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith(("from gpucluster.", "import gpucluster"))
    }
    assert {name for name in imported if not name.startswith("gpucluster.data")} == {
        "gpucluster.addresses",
        "gpucluster.encoding",
        "gpucluster.errors",
    }


def test_a_sample_has_no_suffix_twice_and_never_an_empty_one() -> None:
    """webdataset refuses a sample with a suffix twice."""
    with pytest.raises(ValueError, match=r"^its suffix .cls is that of labels: rename it, or list the files without"):
        tar(Record(0, "scene.CLS", 1, b"x"))
    assert tar(Record(0, "scene.cls", None, b"x")).startswith(b"000000000.cls\0")
    assert tar(Record(0, "scene.", None, b"x")).startswith(b"000000000.bin\0")
