"""Rules about S3's bucket names and object keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpucluster.addresses import S3Uri
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, S3Access
from gpucluster.config.storage import DataRepository
from gpucluster.config.validators import Findings, Validators

validator = Validators("S3 access")

KEY_BYTES = 1024

_STARTS = ("xn--", "sthree-", "amzn-s3-demo-")
_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
"""Suffixes of access points, object lambdas, multi-region access points, directory and table buckets."""


@validator("s3-bucket-name", "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html")
def bucket_name(named: S3Access | DataRepository, path: Path, config: ClusterConfig) -> Findings:
    """A bucket that jobs may use or that Lustre is linked to has a name that a general purpose bucket can have."""
    place, uri = _address(named, path)
    for fault in _faults(uri.bucket):
        yield Finding(place, f"no bucket can be called {uri.bucket}: it {fault}")


@validator(
    "s3-prefix-length",
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html: at most 1,024 bytes",
)
def prefix_length(named: S3Access | DataRepository, path: Path, config: ClusterConfig) -> Findings:
    """A prefix leaves room for names: it is shorter than the longest key."""
    place, uri = _address(named, path)
    length = len(uri.folder.encode())
    if length >= KEY_BYTES:
        yield Finding(place, f"the prefix has {length} bytes, and a whole key at most {KEY_BYTES}")


def _address(named: S3Access | DataRepository, path: Path) -> tuple[Path, S3Uri]:
    if isinstance(named, S3Access):
        return (*path, "uri"), S3Uri.of(named.uri)
    return (*path, "s3"), S3Uri.of(named.s3)


def _faults(bucket: str) -> Iterator[str]:
    """Problems of a name whose characters and length are valid."""
    if ".." in bucket:
        yield "has two dots in a row"
    if re.fullmatch(r"\d+(\.\d+){3}", bucket):
        yield "looks like an IP address"
    yield from (f"begins with {start}, which S3 reserves" for start in _STARTS if bucket.startswith(start))
    yield from (f"ends in {end}, which S3 reserves" for end in _ENDS if bucket.endswith(end))
