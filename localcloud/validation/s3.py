"""Rules for S3's names, digests, policies and tags. S3's model has no constraints; only documents are checked with it.

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
from localcloud.protocol.calls import Call, Environ, read_body
from localcloud.runtime import Locks
from localcloud.validation import constraints, documents, principals, s3_objects
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
_LEAST_IA_DAYS, _LONGEST_ID = 30, 255
_FROM_DAY_0 = ("Transition", "NoncurrentVersionTransition")  # INTELLIGENT_TIERING may begin at once
_LARGEST_BYTES = 64 * 1024 * 1024  # larger bodies are not checked, to save time
_STORAGE = (
    "STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE",
    "OUTPOSTS", "GLACIER_IR", "SNOW", "EXPRESS_ONEZONE", "FSX_OPENZFS", "FSX_ONTAP",
)  # fmt: skip
_OBJECT_ACTION = re.compile(
    r"(?i)(Get|Put|Delete|Restore|Update|Replicate)(Object|Tags|Delete)|AbortMultipartUpload|BypassGovernance"
    r"|ListMultipartUploadParts|ObjectOwnerOverride|InitiateReplication"
)
_BUCKET_ACTION = re.compile(r"(?i)(Get|Put|Delete|List|Create)Bucket")
_OWNERS = ("HTTP_X_AMZ_EXPECTED_BUCKET_OWNER", "HTTP_X_AMZ_SOURCE_EXPECTED_BUCKET_OWNER")
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
    """Checks the XML document in a call's body against its shape in S3's model."""
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
    if any(environ.get(name) not in (None, ACCOUNT_ID) for name in _OWNERS):
        raise Refusal("AccessDenied", "Access Denied", 403)
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
    acl, ownership = environ.get("HTTP_X_AMZ_ACL"), environ.get("HTTP_X_AMZ_OBJECT_OWNERSHIP")
    if acl not in (None, "private") and ownership in (None, "BucketOwnerEnforced"):
        raise Refusal("InvalidBucketAclWithObjectOwnership",
                      "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")  # fmt: skip
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
        principals.check(found)
    except ValueError as error:
        raise Refusal("MalformedPolicy", str(error)) from None
    for statement in found:
        if "Resource" not in statement and "NotResource" not in statement:  # aws/aws-cdk#6708
            raise Refusal("MalformedPolicy", "Statement is missing required element")
        actions = documents.listed(statement.get("Action") or statement.get("NotAction"))
        if not all(str(action) == "*" or str(action).lower().startswith("s3:") for action in actions):
            raise Refusal("MalformedPolicy", "Policy has invalid action")
        for resource in documents.listed(statement.get("Resource")):
            if not _is_of(bucket, str(resource)):
                raise Refusal("MalformedPolicy", "Policy has invalid resource")
        _check_kinds(statement)


def _is_of(bucket: str, resource: str) -> bool:
    """A name with wildcards may match other buckets too, but its first character must be this bucket's."""
    prefix, _, path = resource.partition(":::")
    name = path.partition("/")[0]
    return prefix == "arn:aws:s3" and fnmatchcase(bucket, name.replace("[", "[[]")) and name[:1] == bucket[:1]


def _check_kinds(statement: dict[str, Any]) -> None:
    """Each action needs a resource of its kind: the bucket or its objects.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
    """
    resources = {kind for each in documents.listed(statement.get("Resource")) for kind in _kinds_of(str(each))}
    for action in map(str, documents.listed(statement.get("Action"))):
        if resources and not resources & _kinds_about(action.partition(":")[2]):
            raise Refusal("MalformedPolicy", "Action does not apply to any resource(s) in statement")


def _kinds_of(resource: str) -> set[str]:
    path = resource.rpartition(":::")[2]
    return {"object"} if "/" in path else {"bucket", "object"} if re.search(r"[*?]", path) else {"bucket"}


def _kinds_about(action: str) -> set[str]:
    """For an action with wildcards, the part before them may decide; otherwise it may be about both."""
    if _OBJECT_ACTION.match(action):
        return {"object"}
    is_exact = "*" not in action and "?" not in action
    return {"bucket"} if action and (is_exact or _BUCKET_ACTION.match(action)) else {"bucket", "object"}


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
    if any(len(each or "") > _LONGEST_ID for each in ids):
        raise Refusal("InvalidArgument", f"ID length should not exceed allowed limit of {_LONGEST_ID}")
    if len(set(ids)) < len(ids):
        raise Refusal("InvalidArgument", "RuleId must be unique. Found same ID for more than one rule")
    for rule in (each for each in root if each.tag.endswith("Rule")):
        _check_rule(rule)
    for parent in root.iter():
        for child in parent:
            name, kind = child.tag.rpartition("}")[2], parent.tag.rpartition("}")[2]
            if name in _DAYS.get(kind, ()) and not (child.text or "").strip().isdigit():
                raise Refusal("InvalidArgument", f"'{name}' for {kind} action must be an integer")
            if name in _DAYS.get(kind, ()) and int(child.text or 0) < (kind not in _FROM_DAY_0):
                raise Refusal("InvalidArgument", f"'{name}' for {kind} action must be a positive integer")


def _check_rule(rule: ElementTree.Element) -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-transition-general-considerations.html"""
    held = {each.tag.rpartition("}")[2]: each for each in rule}
    if not held.keys() & set(_DAYS):
        raise Refusal("InvalidRequest", "At least one action needs to be specified in a rule")
    expiration = [each.tag.rpartition("}")[2] for each in held.get("Expiration", ())]
    if len(expiration) > 1:
        raise _malformed_xml()
    days = {str(each.text) for each in held.get("Expiration", ()) if each.tag.endswith("Days")}
    for transition in (each for each in rule if each.tag.endswith("}Transition") or each.tag == "Transition"):
        fields = {each.tag.rpartition("}")[2]: str(each.text) for each in transition}
        after = fields.get("Days", "")
        if "StorageClass" not in fields:
            raise _malformed_xml()
        if (
            fields.get("StorageClass") in ("STANDARD_IA", "ONEZONE_IA")
            and after.isdigit()
            and int(after) < _LEAST_IA_DAYS
        ):
            raise Refusal("InvalidArgument", f"'Days' in Transition action must be greater than or equal to "
                          f"{_LEAST_IA_DAYS} for storageClass '{fields['StorageClass']}'")  # fmt: skip
        if after.isdigit() and any(each.isdigit() and int(each) <= int(after) for each in days):
            raise Refusal("InvalidArgument", "'Days' in the Expiration action for filter must be greater than 'Days' "
                          "in the Transition action")  # fmt: skip


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
