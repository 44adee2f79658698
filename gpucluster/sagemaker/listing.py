"""The objects of a channel in S3: their number decides how hosts and ranks can share them."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpucluster.addresses import S3Uri

ENOUGH = 10_000
"""Objects after which only a channel that needs a manifest is read on."""


class Listed(NamedTuple):
    keys: tuple[str, ...]
    """Below the prefix, in S3's order."""
    bytes: int = 0
    complete: bool = True

    @property
    def mean_bytes(self) -> float:
        return self.bytes / len(self.keys) if self.keys else 0.0


def read(s3: Any, uri: str, *, all_of_them: bool) -> Listed:
    """`s3`: a client of boto3. Raises its errors."""
    place, keys, size = S3Uri.of(uri), list[str](), 0
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.folder)
    for page in pages:
        found = [each for each in page.get("Contents", ()) if not each["Key"].endswith("/")]
        keys += [each["Key"][len(place.folder) :] for each in found]
        size += sum(each["Size"] for each in found)
        if page.get("IsTruncated") and len(keys) >= ENOUGH and not all_of_them:
            return Listed(tuple(keys), size, complete=False)
    return Listed(tuple(keys), size)


def sizes(s3: Any, uri: str) -> dict[str, int]:
    """The objects below an address, with their bytes."""
    place = S3Uri.of(uri)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.folder)
    return {each["Key"][len(place.folder) :]: each["Size"] for page in pages for each in page.get("Contents", ())}
