"""The actions, resources and condition keys of SageMaker's calls, from the service authorization reference.

Creating a job is checked for the new job, with sagemaker:AddTags for its tags, and iam:PassRole for its role. Calls on
a job are checked for it, lists for `*`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from localcloud.clients import ACCOUNT_ID
from localcloud.identity.resources import Check, Keys
from localcloud.protocol.calls import Call
from localcloud.training.refusals import PRINCIPAL


def checks(call: Call) -> Iterator[Check]:
    try:
        request: dict[str, Any] = json.loads(call.body or b"{}")
    except ValueError:
        request = {}
    action, name = f"sagemaker:{call.action}", request.get("TrainingJobName")
    arn = f"arn:aws:sagemaker:{call.region}:{ACCOUNT_ID}:training-job/{name}" if name else ""
    if call.action == "CreateTrainingJob":
        yield from _created(action, arn, request)
    elif call.action == "ListTrainingJobs":
        yield Check(action, "*")
    else:
        yield Check(action, arn or str(request.get("ResourceArn") or ""))


def _created(action: str, arn: str, request: dict[str, Any]) -> Iterator[Check]:
    tags = {str(tag.get("Key")): str(tag.get("Value")) for tag in request.get("Tags") or [] if isinstance(tag, dict)}
    keys: Keys = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
    instance_type = (request.get("ResourceConfig") or {}).get("InstanceType")
    own: Keys = {"sagemaker:InstanceTypes": (str(instance_type),)} if instance_type else {}
    yield Check(action, arn, keys | own)
    if tags:
        yield Check("sagemaker:AddTags", arn, keys | {"aws:TagKeys": tuple(tags)})
    yield Check("iam:PassRole", str(request.get("RoleArn") or ""), {"iam:PassedToService": (PRINCIPAL,)})
