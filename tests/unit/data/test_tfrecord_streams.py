"""TFRecords read as a stream: what `gpucluster data shard` packs; test_data_records.py compares that with TensorFlow's
bytes."""

from __future__ import annotations

import io

import pytest

from gpucluster.data.records import Record, tfrecord
from gpucluster_train.channels import ChannelError
from gpucluster_train.tfrecords import records

PACKED = [tfrecord(Record(number, f"{number}.jpg", number, b"J" * number)) for number in (0, 1, 70_000)]


def test_each_record_comes_without_its_frame() -> None:
    assert list(records(io.BytesIO(b"".join(PACKED)), "x")) == [packed[12:-4] for packed in PACKED]
    assert list(records(io.BytesIO(), "x")) == []


@pytest.mark.parametrize("missing", [1, 4, 5, 69_000])
def test_a_shard_that_ends_too_early_is_no_short_epoch(missing: int) -> None:
    stream = io.BytesIO(b"".join(PACKED)[:-missing])
    with pytest.raises(ChannelError, match="x: it ends in the middle of record 2: copy or pack it again"):
        list(records(stream, "x"))


@pytest.mark.parametrize("content", [b"short", b"x" * 512])
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(ChannelError, match="x: record 0 does not begin with a length"):
        list(records(io.BytesIO(content), "x"))
