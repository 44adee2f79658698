"""Reads TFRecords as a stream, for shards that TensorFlow cannot open: since 2.6 its package knows no s3://.

https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details has the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from gpucluster_train.channels import ChannelError

_HEAD, _FOOT = 12, 4
"""The length with its checksum before a record, and the checksum of the record after it; not computed here: without a
compiled library that takes longer than decoding the picture, and S3's clients check what they receive."""
_LARGEST = 1 << 31


def records(stream: IO[bytes], place: str) -> Iterator[bytes]:
    """The records of one shard, each a serialized tf.train.Example. Raises ChannelError if the shard is incomplete."""
    count = 0
    while head := stream.read(_HEAD):
        length = int.from_bytes(head[:8], "little")
        if len(head) < _HEAD or length > _LARGEST:
            raise ChannelError(f"{place}: record {count} does not begin with a length: it is no whole TFRecord file")
        record = stream.read(length + _FOOT)
        if len(record) < length + _FOOT:
            raise ChannelError(f"{place}: it ends in the middle of record {count}: copy or pack it again")
        yield record[:-_FOOT]
        count += 1
