"""What S3 takes as a bucket's name and as an object's key."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMING = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"
KEYS = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html: at most 1,024 bytes"
KEY_BYTES = 1024

_STARTS = ("xn--", "sthree-", "amzn-s3-demo-")
_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
"""Of access points, object lambdas, multi-region access points, directory and table buckets."""


def faults(bucket: str) -> Iterator[str]:
    """Of a name whose characters and length were found right."""
    if ".." in bucket:
        yield "has two dots in a row"
    if re.fullmatch(r"\d+(\.\d+){3}", bucket):
        yield "looks like an IP address"
    yield from (f"begins with {start}, which S3 keeps for itself" for start in _STARTS if bucket.startswith(start))
    yield from (f"ends in {end}: no general purpose bucket" for end in _ENDS if bucket.endswith(end))
