"""Objects of the environments' cache in S3, through pipes: no copy of them is stored on the way.

usage: environment_cache has|get|put s3://BUCKET/KEY

`get` writes to stdout, `put` reads stdin, and fails if the object exists; `has` exits with code 1 for no.
"""

from __future__ import annotations

import sys
from typing import Any

from gpucluster_node.locations import bucket_and_key

PART_BYTES = 64 * 2**20
"""An object has at most 10,000 parts; with parts of this size it has up to 600 GiB."""


def has(s3: Any, uri: str) -> bool:
    """Lists the key, because a request for a missing object gets `forbidden`."""
    bucket, key = bucket_and_key(uri)
    found = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
    return any(each["Key"] == key for each in found)


def get(s3: Any, uri: str) -> None:
    bucket, key = bucket_and_key(uri)
    body = s3.get_object(Bucket=bucket, Key=key)["Body"]
    for part in body.iter_chunks(2**20):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def put(s3: Any, uri: str) -> None:
    from boto3.s3.transfer import TransferConfig

    bucket, key = bucket_and_key(uri)
    for creation in ("PutObject", "CompleteMultipartUpload"):
        s3.meta.events.register(f"before-sign.s3.{creation}", _only_if_there_is_none)
    config = TransferConfig(multipart_chunksize=PART_BYTES, multipart_threshold=PART_BYTES, max_concurrency=4)
    s3.upload_fileobj(sys.stdin.buffer, bucket, key, Config=config)


def _only_if_there_is_none(request: Any, **_: object) -> None:
    """Nodes may add archives and not replace them (stacks/storage/s3_access.py). Ubuntu 24.04's botocore 1.34 has no
    argument for the header."""
    request.headers["If-None-Match"] = "*"


def main(verb: str, uri: str) -> int:
    import boto3

    s3 = boto3.client("s3")
    if verb == "has":
        return 0 if has(s3, uri) else 1
    {"get": get, "put": put}[verb](s3, uri)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
