"""Tags of EC2's requests: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions"""

from __future__ import annotations

from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import kept
from localcloud.validation.refusal import Refusal

MOST = 50
_KEY_LENGTH, _VALUE_LENGTH = 128, 256
_RESERVED = "aws:"


def check(backend: EC2Backend, action: str, parameters: dict[str, Any]) -> None:
    for specification in parameters.get("TagSpecifications") or []:
        if specification.get("Tags"):
            if not specification.get("ResourceType"):
                raise Refusal("MissingParameter", "Tag specification must have resource type and at least one tag")
            check_list(specification["Tags"])
    if action in ("CreateTags", "DeleteTags"):
        tags = parameters.get("Tags") or []
        if action == "CreateTags" and not tags:
            raise Refusal("MissingParameter", "The request must contain the parameter Tags")
        check_list(tags)
        for resource_id in parameters.get("Resources") or []:
            if action == "CreateTags":
                _check_count(backend, resource_id, tags)


def check_list(tags: list[dict[str, Any]]) -> None:
    keys = [str(tag.get("Key") or "") for tag in tags]
    for tag, key in zip(tags, keys, strict=True):
        _check_one(key, str(tag.get("Value") or ""))
    if doubled := next((key for key in keys if keys.count(key) > 1), None):
        raise Refusal("InvalidParameterValue", f"Duplicate tag key '{doubled}' specified.")
    if len(keys) > MOST:
        raise _too_many()


def _check_one(key: str, value: str) -> None:
    if not key:
        raise Refusal("InvalidParameterValue", "Tag key cannot be empty or null.")
    if key.lower().startswith(_RESERVED):
        raise Refusal("InvalidParameterValue", f"Tag keys starting with '{_RESERVED}' are reserved for internal use")
    if len(key) > _KEY_LENGTH:
        raise Refusal("InvalidParameterValue", f"Tag key exceeds the maximum length of {_KEY_LENGTH} characters")
    if len(value) > _VALUE_LENGTH:
        raise Refusal("InvalidParameterValue", f"Tag value exceeds the maximum length of {_VALUE_LENGTH} characters")


def _check_count(backend: EC2Backend, resource_id: str, tags: list[dict[str, Any]]) -> None:
    record = kept.find(backend, resource_id)
    held = {tag["Key"] for tag in (record or {}).get("Tags") or []} or set(backend.tags.get(resource_id) or ())
    own = {key for key in held | {str(tag.get("Key")) for tag in tags} if not key.startswith(_RESERVED)}
    if len(own) > MOST:
        raise _too_many()


def _too_many() -> Refusal:
    return Refusal("TagLimitExceeded", f"The maximum number of Tags for a resource has been reached: {MOST}.")
