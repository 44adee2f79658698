"""One case, and an account that answers from its table. Calls and answers are checked against the services' models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
from botocore.validate import validate_parameters

from gpucluster.config.checks.online.account import Refused

Keys = dict[str, Any]
Answers = Mapping[str, Any]
"""`service operation` to the answer, or to the code of the error that it is refused with."""

ZONES = {"AvailabilityZones": [{"ZoneName": f"us-east-1{letter}", "State": "available"} for letter in "ab"]}
USUAL: Answers = {
    "ec2 describe_availability_zones": ZONES,
    "cloudformation describe_stacks": "ValidationError",
    "sts get_caller_identity": {"Account": "123456789012"},
}


@dataclass(frozen=True)
class Online:
    cluster: Keys
    key: str
    says: str
    fails: Answers
    passes: Answers


@dataclass
class Scripted:
    """A `gpucluster.config.checks.online.account.Account`."""

    answers: Answers
    asked: set[str] = field(default_factory=set)

    def ask(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        question = f"{service} {operation}"
        self.asked.add(question)
        answer: Any = {**USUAL, **self.answers}[question]
        client = _client(service)
        model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation])
        if model.input_shape:
            validate_parameters(parameters, model.input_shape)
        if isinstance(answer, str):
            raise Refused(f"{service} {model.name}", answer, "")
        validate_parameters(answer, model.output_shape)
        return dict(answer)


class Denied:
    """A caller without any permission."""

    def ask(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        raise Refused(f"{service} {operation}", "AccessDenied", "")


@cache
def _client(service: str) -> Any:
    return boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def quota(value: float) -> Answers:
    return {"service-quotas get_service_quota": {"Quota": {"Value": value}}}


def deployed(name: str) -> Answers:
    stack = {"StackName": name, "StackStatus": "UPDATE_COMPLETE", "CreationTime": "2026-11-21"}
    return {"cloudformation describe_stacks": {"Stacks": [stack]}}
