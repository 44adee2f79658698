"""Rules for tags that most services share: reserved keys, and the number of tags in a request.

Each service's page of tag restrictions has both rules, and its API reference the codes. EC2, S3, IAM and CloudFormation
have their own rules for tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters

_MOST = 50
_RESERVED = "aws:"
_MEMBERS = ("Tags", "tags", "TagList", "TagsToAdd", "ResourceTags")
# service: the codes for a reserved key and for too many tags
_CODES: dict[str, tuple[str, str]] = {
    "ssm": ("ValidationException", "TooManyTagsError"),
    "secretsmanager": ("InvalidParameterException", "InvalidParameterException"),
    "logs": ("InvalidParameterException", "InvalidParameterException"),
    "sns": ("InvalidParameter", "TagLimitExceeded"),
    "rds": ("InvalidParameterValue", "InvalidParameterValue"),
    "kms": ("TagException", "TagException"),
    "dynamodb": ("ValidationException", "ValidationException"),
    "elbv2": ("ValidationError", "TooManyTags"),
    "efs": ("BadRequest", "BadRequest"),
    "fsx": ("BadRequest", "BadRequest"),
    "events": ("ValidationException", "ValidationException"),
    "cloudwatch": ("InvalidParameterValue", "InvalidParameterValue"),
}


def check(service: str, action: str, given: Parameters) -> None:
    reserved, many = _CODES.get(service, ("", ""))
    if not reserved or action.startswith(("Untag", "Remove", "List", "Describe", "Get")):
        return
    for member in _MEMBERS:
        keys = list(_keys(given.get(member)))
        wrong = next((key for key in keys if key.lower().startswith(_RESERVED)), None)
        if wrong:
            raise Refusal(reserved, f"{_RESERVED} prefixed tag key names are not allowed for external use: {wrong}")
        if len(keys) > _MOST:
            raise Refusal(many, f"A resource can have at most {_MOST} tags, got {len(keys)}.")


def _keys(tags: Any) -> Iterator[str]:
    """The keys of a list of tags or of a map."""
    if isinstance(tags, dict):
        yield from map(str, tags)
    elif isinstance(tags, list):
        for tag in tags:
            if isinstance(tag, dict):
                yield str(tag.get("Key") or tag.get("TagKey") or "")
