"""S3: names, digests, policies, tags. Its model has no constraints, and what it sends is not parsed here but for these.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, .../API/ErrorResponses.html
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any
from xml.etree import ElementTree

from botocore.model import StructureShape
from moto.core.parse import PROTOCOL_PARSERS, RequestParserError
from moto.core.utils import get_service_model

from localcloud.clients import ACCOUNT_ID
from localcloud.identity import roles
from localcloud.protocol.calls import Call, Environ, read_body
from localcloud.runtime import Locks
from localcloud.validation import constraints, documents, s3_objects
from localcloud.validation.refusal import Refusal

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIXES, _SUFFIXES = ("xn--", "sthree-", "amzn-s3-demo-"), ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_POLICY_BYTES = 20480
_KEY_BYTES = 1024
_MOST_TAGS = {"PutBucketTagging": 50, "PutObjectTagging": 10}
_MOST_DELETED = 1000
_DAYS = {
    "Expiration": ("Days",), "Transition": ("Days",), "NoncurrentVersionExpiration": ("NoncurrentDays",),
    "NoncurrentVersionTransition": ("NoncurrentDays",), "AbortIncompleteMultipartUpload": ("DaysAfterInitiation",),
}  # fmt: skip
_FROM_DAY_0 = ("Transition", "NoncurrentVersionTransition")  # INTELLIGENT_TIERING may begin at once
_LARGEST_BYTES = 64 * 1024 * 1024  # whose digest is worth its time here
_STORAGE = (
    "STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE",
    "OUTPOSTS", "GLACIER_IR", "SNOW", "EXPRESS_ONEZONE", "FSX_OPENZFS", "FSX_ONTAP",
)  # fmt: skip
# An account, one of its principals, the unique id of a deleted one, CloudFront's origin access identity.
_PRINCIPAL = re.compile(
    r"\d{12}|arn:aws:(iam|sts)::\d{12}:.+|AIDA\w+|AROA\w+"
    r"|arn:aws:iam::cloudfront:user/CloudFront Origin Access Identity \w+"
)
_ENCRYPTIONS = ("AES256", "aws:kms", "aws:kms:dsse", "aws:fsx")


def check(call: Call, environ: Environ, locks: Locks) -> None:
    bucket, _, key = call.path.lstrip("/").partition("/")
    if len(key.encode()) > _KEY_BYTES:
        raise Refusal("KeyTooLongError", "Your key is too long")
    _check_headers(environ)
    if environ.get("HTTP_CONTENT_MD5"):
        _check_digest(str(environ["HTTP_CONTENT_MD5"]), read_body(environ, _LARGEST_BYTES))
    if call.action in _CHECKS:
        _CHECKS[call.action](bucket, call, environ)
    _check_schema(call.action, environ)
    s3_objects.check(bucket, key, call, environ, locks)


def _check_schema(action: str, environ: Environ) -> None:
    """The document that a call sends, against its shape in S3's model."""
    model = get_service_model("s3")
    shape = model.operation_model(action).input_shape if action in model.operation_names else None
    member = shape.serialization.get("payload") if shape else None
    payload = shape.members[member] if isinstance(shape, StructureShape) and member else None
    if not isinstance(payload, StructureShape) or not (body := read_body(environ, _LARGEST_BYTES)):
        return
    parser: Any = PROTOCOL_PARSERS["rest-xml"](model.operation_model(action))
    try:
        document = parser._parse_shape(payload, parser._initial_body_parse(body))
    except (ElementTree.ParseError, ValueError, RequestParserError):
        raise _malformed_xml() from None
    if any(True for _ in constraints.violations(payload, document)):
        raise _malformed_xml()


def _malformed_xml() -> Refusal:
    return Refusal(
        "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema"
    )


def _check_headers(environ: Environ) -> None:
    storage, encryption = environ.get("HTTP_X_AMZ_STORAGE_CLASS"), environ.get("HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION")
    if storage and storage not in _STORAGE:
        raise Refusal("InvalidStorageClass", "The storage class you specified is not valid")
    if encryption and encryption not in _ENCRYPTIONS:
        raise Refusal("InvalidArgument", "The encryption method specified is not supported")


def _check_digest(given: str, body: bytes) -> None:
    try:
        digest = base64.b64decode(given, validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != hashlib.md5(usedforsecurity=False).digest_size:
        raise Refusal("InvalidDigest", "The Content-MD5 you specified was invalid.")
    if body and hashlib.md5(body, usedforsecurity=False).digest() != digest:
        raise Refusal("BadDigest", "The Content-MD5 you specified did not match what we received.")


def _create(bucket: str, call: Call, environ: Environ) -> None:
    if b"<LocationConstraint>us-east-1<" in read_body(environ, _LARGEST_BYTES):
        raise Refusal("InvalidLocationConstraint", "The specified location-constraint is not valid")
    fits = _BUCKET.fullmatch(bucket) and ".." not in bucket and not _is_address(bucket)
    if not fits or bucket.startswith(_PREFIXES) or bucket.endswith(_SUFFIXES):
        raise Refusal("InvalidBucketName", "The specified bucket is not valid.")


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(name))
    except ValueError:
        return False


def _policy(bucket: str, call: Call, environ: Environ) -> None:
    text = read_body(environ, _LARGEST_BYTES).decode("utf-8", "replace")
    if len(text.encode()) > _POLICY_BYTES:
        raise Refusal("PolicyTooLarge", "Normalized policy document exceeds the maximum allowed size of 20480 bytes.")
    try:
        found = documents.check(text, resource_policy=True)
    except ValueError as error:
        raise Refusal("MalformedPolicy", str(error)) from None
    for statement in found:
        actions = documents.listed(statement.get("Action") or statement.get("NotAction"))
        if not all(str(action) == "*" or str(action).lower().startswith("s3:") for action in actions):
            raise Refusal("MalformedPolicy", "Policy has invalid action")
        for resource in documents.listed(statement.get("Resource")):
            if not _is_of(bucket, str(resource)):
                raise Refusal("MalformedPolicy", "Policy has invalid resource")
        _check_principals(statement.get("Principal"))


def _is_of(bucket: str, resource: str) -> bool:
    """A name with wildcards may match other buckets too; it must begin as this bucket's does."""
    prefix, _, path = resource.partition(":::")
    name = path.partition("/")[0]
    return prefix == "arn:aws:s3" and fnmatchcase(bucket, name.replace("[", "[[]")) and name[:1] == bucket[:1]


def _check_principals(principal: object) -> None:
    if isinstance(principal, str):
        if principal != "*":
            raise Refusal("MalformedPolicy", "Invalid principal in policy")
        return
    named = principal.get("AWS") if isinstance(principal, dict) else None
    stores: tuple[Any, Any] = (roles.iam().roles, roles.iam().users)
    known = {each.arn for store in stores for each in list(store.values())}
    for arn in map(str, documents.listed(named)):
        ours = arn.startswith(f"arn:aws:iam::{ACCOUNT_ID}:") and not arn.endswith(":root")
        form = arn == "*" or _PRINCIPAL.fullmatch(arn)
        if not form or (ours and arn not in known):
            raise Refusal("MalformedPolicy", "Invalid principal in policy")


def _tags(bucket: str, call: Call, environ: Environ) -> None:
    try:
        root = ElementTree.fromstring(read_body(environ, _LARGEST_BYTES))
    except ElementTree.ParseError:
        raise _malformed_xml() from None
    pairs = [
        {child.tag.rpartition("}")[2]: child.text or "" for child in tag}
        for tag in root.iter()
        if tag.tag.rpartition("}")[2] == "Tag"
    ]
    keys = [pair.get("Key", "") for pair in pairs]
    if len(keys) > _MOST_TAGS[call.action]:
        code = "BadRequest" if call.action == "PutObjectTagging" else "InvalidTag"
        raise Refusal(code, f"Tags cannot be greater than {_MOST_TAGS[call.action]}")
    if len(set(keys)) < len(keys):
        raise Refusal("InvalidTag", "Cannot provide multiple Tags with the same key")
    if any(not key or len(key) > 128 for key in keys):
        raise Refusal("InvalidTag", "The TagKey you have provided is invalid")
    if any(len(pair.get("Value", "")) > 256 for pair in pairs):
        raise Refusal("InvalidTag", "The TagValue you have provided is invalid")
    if any(key.lower().startswith("aws:") for key in keys):
        raise Refusal("InvalidTag", "System tags cannot be added/updated by requester")


def _listing(bucket: str, call: Call, environ: Environ) -> None:
    most, encoding = call.form.get("max-keys"), call.form.get("encoding-type")
    if encoding not in (None, "", "url"):
        raise Refusal("InvalidArgument", "Invalid Encoding Method specified in Request")
    if most is not None and not most.isdigit():
        raise Refusal("InvalidArgument", f"Provided max-keys {most} not an integer or within integer range")


def _lifecycle(bucket: str, call: Call, environ: Environ) -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_LifecycleExpiration.html"""
    try:
        root = ElementTree.fromstring(read_body(environ, _LARGEST_BYTES))
    except ElementTree.ParseError:
        raise _malformed_xml() from None
    ids = [each.text for rule in root for each in rule if each.tag.rpartition("}")[2] == "ID"]
    if len(set(ids)) < len(ids):
        raise Refusal("InvalidArgument", "RuleId must be unique. Found same ID for more than one rule")
    for parent in root.iter():
        for child in parent:
            name, kind = child.tag.rpartition("}")[2], parent.tag.rpartition("}")[2]
            if name in _DAYS.get(kind, ()) and not (child.text or "").strip().isdigit():
                raise Refusal("InvalidArgument", f"'{name}' for {kind} action must be an integer")
            if name in _DAYS.get(kind, ()) and int(child.text or 0) < (kind not in _FROM_DAY_0):
                raise Refusal("InvalidArgument", f"'{name}' for {kind} action must be a positive integer")


def _deletion(bucket: str, call: Call, environ: Environ) -> None:
    if read_body(environ, _LARGEST_BYTES).count(b"<Object>") > _MOST_DELETED:
        raise _malformed_xml()


_CHECKS: dict[str, Callable[[str, Call, Environ], None]] = {
    "CreateBucket": _create,
    "PutBucketPolicy": _policy,
    "PutBucketTagging": _tags,
    "PutObjectTagging": _tags,
    "ListObjects": _listing,
    "ListObjectsV2": _listing,
    "DeleteObjects": _deletion,
    "PutBucketLifecycleConfiguration": _lifecycle,
}
