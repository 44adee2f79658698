"""The actions, resources and condition keys of FSx calls, from the service authorization reference.

Creating a file system or a link is checked for the new resource, with fsx:TagResource for its tags. A link is also
checked for its file system, for the role by which FSx reads and writes the bucket, and for the caller's own access to
the bucket and the prefix. Deleting is checked for the deleted resource, with its tags. Describe actions are checked for
`*`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from moto.fsx.models import fsx_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.filesystems import links
from localcloud.identity.resources import Check, Keys
from localcloud.protocol.calls import Call

_LINK_SERVICE = "s3.data-source.lustre.fsx.amazonaws.com"
_LINK_ACTIONS = ("CreateServiceLinkedRole", "AttachRolePolicy", "PutRolePolicy")
# FSx's refusal names these. Which actions they stand for is not documented, so a policy must have them as they are.
_BUCKET_ACTIONS = ("Get*", "List*")
_OBJECT_ACTIONS = ("Get*", "PutObject")


def checks(call: Call) -> Iterator[Check]:
    request: dict[str, Any] = json.loads(call.body or b"{}")
    if call.action.startswith("Describe"):
        yield Check(f"fsx:{call.action}", "*")
    elif call.action == "CreateFileSystem":
        yield from _made(call, "file-system", request)
    elif call.action == "CreateDataRepositoryAssociation":
        yield _known(call, request)
        yield from _made(call, "association", request)
        yield from _linked(request)
    elif call.action == "DeleteFileSystem":
        yield _known(call, request)
    else:
        yield Check(f"fsx:{call.action}")


def _made(call: Call, kind: str, request: dict[str, Any]) -> Iterator[Check]:
    tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags") or []}
    keys: Keys = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
    yield Check(f"fsx:{call.action}", _arn(call, kind, "*"), keys)
    if tags:
        yield Check("fsx:TagResource", _arn(call, kind, "*"), keys | {"aws:TagKeys": tuple(tags)})


def _known(call: Call, request: dict[str, Any]) -> Check:
    arn = _arn(call, "file-system", str(request.get("FileSystemId")))
    tags = fsx_backends[ACCOUNT_ID][call.region].list_tags_for_resource(arn)
    return Check(f"fsx:{call.action}", arn, {f"aws:ResourceTag/{tag['Key']}": (tag["Value"],) for tag in tags})


def _linked(request: dict[str, Any]) -> Iterator[Check]:
    name = f"AWSServiceRoleForFSxS3Access_{request.get('FileSystemId')}"
    role = f"arn:aws:iam::{ACCOUNT_ID}:role/aws-service-role/{_LINK_SERVICE}/{name}"
    for action in _LINK_ACTIONS:
        yield Check(f"iam:{action}", role, {"iam:AWSServiceName": (_LINK_SERVICE,)})
    bucket, _, prefix = str(request.get("DataRepositoryPath", "")).removeprefix("s3://").partition("/")
    objects = "/".join(filter(None, (bucket, prefix.strip("/"), "*")))
    for actions, resource in ((_BUCKET_ACTIONS, bucket), (_OBJECT_ACTIONS, objects)):
        for action in actions:
            yield Check(f"s3:{action}", f"arn:aws:s3:::{resource}", refusal=("BadRequest", links.NO_ACCESS))


def _arn(call: Call, kind: str, name: str) -> str:
    return f"arn:aws:fsx:{call.region}:{ACCOUNT_ID}:{kind}/{name}"
