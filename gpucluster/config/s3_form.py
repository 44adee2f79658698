"""The form of S3 addresses: says which part is wrong, and translates ARNs and URLs of buckets.

Imported by the types of cluster.yaml's values (fields.py) and of job.yaml's.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic_core import PydanticCustomError

from gpucluster.addresses import S3
from gpucluster.config import invisible
from gpucluster.config.value_checks import field, refuse

BUCKET_NAMES = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html: 3 to 63 characters"
_LATIN = "https://docs.aws.amazon.com/IAM/latest/APIReference/API_PutRolePolicy.html: PolicyDocument: up to U+00FF"
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_WHAT = "must be an S3 address such as s3://bucket/prefix"


@field("s3-uri-form", section="S3 access", source=f"{BUCKET_NAMES}; {_LATIN}")
def s3_uri(value: str) -> str:
    """A bucket with its prefix is an S3 address such as s3://bucket/prefix, of characters that an IAM policy
    may have."""
    if fault := _fault(value) or _not_for_iam(value):
        raise fault
    return value


def any_s3_uri(value: str) -> str:
    """An address that no IAM policy has to name: its key may have any character that one can see."""
    if fault := _fault(value):
        raise fault
    return value


def is_meant(value: str) -> bool:
    """Whether the text is an S3 address, or one in another form than s3://."""
    return re.match(r"(s3[an]?:|arn:aws|https?://)", value, re.IGNORECASE) is not None


def _fault(value: str) -> PydanticCustomError | None:
    if not value.startswith(S3):
        return refuse(f"{_WHAT}, got {value!r}", _meant(value))
    bucket, _, key = value.removeprefix(S3).partition("/")
    if not re.fullmatch(_BUCKET, bucket):
        rule = "a bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens"
        return refuse(
            f"{_WHAT}, got {value!r}", f"{rule}, got {bucket!r}" if bucket else f"the bucket is missing: {rule}"
        )
    strange = next((each for each in key if each in "\t\r\n" or invisible.is_invisible(each)), None)
    if strange:
        return refuse(f"{_WHAT}, got {value!r}", f"the prefix contains the {invisible.name_of(strange)}: remove it")
    return None


def _not_for_iam(value: str) -> PydanticCustomError | None:
    beyond = re.search(r"[^\0-\xff]", value)
    if not beyond:
        return None
    above = value[: beyond.start()].rpartition("/")[0]
    message = f"contains {invisible.name_of(beyond[0])}, which no IAM policy may contain, got {value!r}"
    return refuse(message, f"name the prefix above it: {above}/")


def _meant(value: str) -> str:
    """What to write for an address in another form; "" if it is none."""
    scheme = re.match(r"([a-z][a-z0-9+.-]*):/*", value, re.IGNORECASE)
    if value.startswith("arn:"):
        return _of_arn(value)
    if scheme and scheme[1].lower() in ("http", "https"):
        return _of_url(value)
    if scheme and scheme[1].lower() in ("s3", "s3a", "s3n"):
        return f"write {S3}{value[scheme.end() :]}"
    if scheme:
        return f"{scheme[1]} is no scheme of S3"
    return f"write {S3}{value.lstrip('/')}" if re.fullmatch(rf"{_BUCKET}(/.*)?", value) else ""


def _of_arn(arn: str) -> str:
    found = re.fullmatch(r"arn:aws[a-z-]*:s3:::([^/*]+)(/.*?)?/?\**", arn)
    if found:
        return f"write {S3}{found[1]}{found[2] or ''}"
    if ":accesspoint" in arn:
        return "access points are not supported: name the bucket, s3://bucket/prefix"
    return "name the bucket, s3://bucket/prefix"


def _of_url(url: str) -> str:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html: path-style, virtual-hosted-style."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    host, path = parts.netloc, unquote(parts.path).strip("/")
    if console := re.fullmatch(r"s3/(?:buckets|object)/([^/]+)", path):
        prefix = parse_qs(parts.query).get("prefix", [""])[0]
        return f"write {S3}{console[1]}/{prefix}".rstrip("/") if "console" in host else ""
    if hosted := re.fullmatch(r"(?:(.+)\.)?s3[.-](?:.*\.)?amazonaws\.(?:com|com\.cn|eu)", host):
        return f"write {S3}{hosted[1]}/{path}".rstrip("/") if hosted[1] else f"write {S3}{path}"
    return "a URL is not supported: copy the data to a bucket, and name it: s3://bucket/prefix"
