"""Data prepared for N ranks: files of a data set, shuffled and packed into shards.

    source      what there is to pack: image folders, file lists; on a disk or in S3
    plan        which sample goes into which shard: decided once, kept beside the shards until all are there
    records     a sample as bytes of a tar, a TFRecord or a RecordIO file
    packing     one shard, in one process
    excluded    lists of files to leave out
    run         all of them, over processes; the manifest when the last is there
    verify      whether shards are what their manifest says
    places      folders and S3 prefixes alike

It travels with jobs of `gpucluster data shard --array`: nothing here imports more than the standard library and
`gpucluster.errors`, and boto3 where S3 is named.
"""

from __future__ import annotations
