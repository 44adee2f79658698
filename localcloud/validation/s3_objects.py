"""Rules for multipart uploads, metadata, ACLs and versions of S3 objects.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and the pages of each action.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree

from moto.s3.models import s3_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.protocol.calls import Call, Environ, read_body
from localcloud.runtime import Locks
from localcloud.validation.refusal import Refusal

_MOST_PARTS, _MOST_TAGS = 10000, 10
_METADATA_BYTES = 2048
_LARGEST_BYTES = 4 * 1024 * 1024  # enough for a list of 10,000 parts
_METADATA = "HTTP_X_AMZ_META_"
_UPLOADS = ("UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "AbortMultipartUpload", "ListParts")
_WRITES = ("PutObject", "CreateMultipartUpload", "CopyObject")
_OWNERS_ACLS = ("bucket-owner-full-control", "bucket-owner-read", "private")
_CANNED = (
    "private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read",
    "bucket-owner-full-control",
)  # fmt: skip
_LARGEST_BODY_BYTES = 64 * 1024 * 1024
_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    "SHA256": lambda body: hashlib.sha256(body).digest(),
    "SHA1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    "CRC32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
}
_VERSION = re.compile(r"null|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")  # moto's form


def check(bucket: str, key: str, call: Call, environ: Environ, locks: Locks) -> None:
    if not key:
        return
    _check_headers(call, environ)
    if call.action in ("UploadPart", "UploadPartCopy"):
        _check_part_number(call)
    with locks.whole:
        held = s3_backends[ACCOUNT_ID]["aws"].buckets.get(bucket)
        if held is None:
            return  # moto reports it
        if call.action in _UPLOADS:
            _check_upload(held, call, environ)
        if call.action in _WRITES:
            _check_metadata(environ)
            _check_tags(str(environ.get("HTTP_X_AMZ_TAGGING") or ""))
        if call.action in (*_WRITES, "PutObjectAcl"):
            _check_acl(held, environ)
    version = call.form.get("versionId")
    if version is not None and not _VERSION.fullmatch(version):
        raise Refusal("InvalidArgument", "Invalid version id specified")


def _check_headers(call: Call, environ: Environ) -> None:
    acl, encryption = environ.get("HTTP_X_AMZ_ACL"), environ.get("HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION")
    if acl and acl not in _CANNED:
        raise Refusal("InvalidArgument", f"The canned ACL {acl} is not valid")
    if environ.get("HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION_AWS_KMS_KEY_ID") and encryption == "AES256":
        raise Refusal("InvalidArgument", "Server Side Encryption with AES256 is incompatible with a KMS key")
    source = unquote(str(environ.get("HTTP_X_AMZ_COPY_SOURCE") or "b/k")).lstrip("/")
    if not source.startswith("arn:") and not all(source.partition("/")[::2]):
        raise Refusal("InvalidArgument", "Invalid copy source object key")
    if call.action == "PutObject" and environ.get("HTTP_IF_NONE_MATCH") not in (None, "*"):
        raise Refusal("NotImplemented", "A header you provided implies functionality that is not implemented", 501)
    for algorithm, digest in _DIGESTS.items():
        given = environ.get(f"HTTP_X_AMZ_CHECKSUM_{algorithm}")
        if given and call.action in ("PutObject", "UploadPart"):
            _check_digest(algorithm, str(given), digest, environ)


def _check_digest(algorithm: str, given: str, digest: Callable[[bytes], bytes], environ: Environ) -> None:
    """Checks a body that is sent whole. A chunked body has its checksum in a trailer, which is not checked."""
    if "aws-chunked" in str(environ.get("HTTP_CONTENT_ENCODING") or ""):
        return
    body = read_body(environ, _LARGEST_BODY_BYTES)
    if body and base64.b64encode(digest(body)).decode() != given:
        raise Refusal("BadDigest", f"The {algorithm} you specified did not match the calculated checksum.")


def _check_part_number(call: Call) -> None:
    number = call.form.get("partNumber", "")
    if not number.isdigit() or not 1 <= int(number) <= _MOST_PARTS:
        raise Refusal("InvalidArgument", f"Part number must be an integer between 1 and {_MOST_PARTS}, inclusive")


def _check_upload(bucket: Any, call: Call, environ: Environ) -> None:
    upload = bucket.multiparts.get(call.form.get("uploadId", ""))
    if upload is None:
        raise Refusal(
            "NoSuchUpload",
            "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or "
            "completed.",
            404,
        )
    if call.action == "CompleteMultipartUpload":
        _check_order(read_body(environ, _LARGEST_BYTES))


def _check_order(body: bytes) -> None:
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return  # `s3._check_schema` reports it
    numbers = [int(each.text or 0) for each in root.iter() if each.tag.rpartition("}")[2] == "PartNumber"]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise Refusal(
            "InvalidPartOrder", "The list of parts was not in ascending order. Parts must be ordered by part number."
        )


def _check_metadata(environ: Environ) -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html#UserMetadata"""
    given = [
        (name.removeprefix(_METADATA), str(value)) for name, value in environ.items() if name.startswith(_METADATA)
    ]
    if sum(len(name) + len(value.encode()) for name, value in given) > _METADATA_BYTES:
        raise Refusal("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size")


def _check_tags(header: str) -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html"""
    tags = parse_qsl(header, keep_blank_values=True)
    if len(tags) > _MOST_TAGS:
        raise Refusal("BadRequest", f"Object tags cannot be greater than {_MOST_TAGS}")
    if len({key for key, _ in tags}) < len(tags):
        raise Refusal("InvalidArgument", "Cannot provide multiple Tags with the same key")
    for key, value in tags:
        if not 0 < len(key) <= 128 or len(value) > 256 or key.lower().startswith("aws:"):
            raise Refusal("InvalidTag", f"The tag {key} is not valid")


def _check_acl(bucket: Any, environ: Environ) -> None:
    """By default ownership controls disable ACLs, and the bucket's owner owns every object.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/about-object-ownership.html
    """
    granted = any(name.startswith("HTTP_X_AMZ_GRANT_") for name in environ)
    asked = str(environ.get("HTTP_X_AMZ_ACL") or "")
    if not _is_owners(bucket) or not (granted or (asked and asked not in _OWNERS_ACLS)):
        return
    raise Refusal("AccessControlListNotSupported", "The bucket does not allow ACLs")


def _is_owners(bucket: Any) -> bool:
    controls = getattr(bucket, "ownership_rule", None)
    return "BucketOwnerEnforced" in str(controls) if controls else True
