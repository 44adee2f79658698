"""Prepares data for N ranks: shuffles the files of a data set and packs them into shards.

    source      the input: image folders or file lists, on a disk or in S3
    lists       file lists: their encoding, columns and labels
    plan        which sample goes into which shard: computed once, kept beside the shards until all exist
    records     a sample as bytes of a tar, a TFRecord or a RecordIO file
    packing     one shard, in one process
    excluded    lists of files to skip
    run         all shards, over processes; the manifest after the last one
    verify      compares shards with their manifest
    locations   folders and S3 prefixes alike

It is shipped with jobs of `gpucluster data shard --array`: it imports only the standard library and
the single files of `gpucluster` beside it, and boto3 for data in S3.
"""

from __future__ import annotations
