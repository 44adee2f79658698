"""Scopes: a stack's parameters, resources and account, as intrinsic functions see them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from localcloud.cloudformation.errors import ResourceError, ValidationError
from localcloud.cloudformation.intrinsics import NO_VALUE, Scope
from localcloud.cloudformation.model import Revision, Stack, StackResource

Clients = Callable[[str, str], Any]
_NO_PARAMETER = ("ParameterNotFound", "ParameterVersionNotFound", "ValidationException")
_SECRET = re.compile(
    r"(arn:[^:]+:secretsmanager:[^:]*:[^:]*:secret:[^:]+|[^:]+)"  # id or ARN
    r"(?::SecretString(?::([^:]*).*)?)?"  # key of a JSON secret
)
_DYNAMIC = re.compile(r"\{\{resolve:(ssm|ssm-secure|secretsmanager):([^{}]+)\}\}")


def pseudo_parameters(stack: Stack) -> dict[str, Any]:
    return {
        "AWS::AccountId": stack.account_id,
        "AWS::Region": stack.region,
        "AWS::StackName": stack.name,
        "AWS::StackId": stack.stack_id,
        "AWS::Partition": "aws",
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::NotificationARNs": list(stack.notification_arns),
    }


def fetch_ssm(clients: Clients, region: str) -> Callable[[str], str | None]:
    def fetch(name: str) -> str | None:
        try:
            return str(clients("ssm", region).get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] in _NO_PARAMETER:
                return None
            raise

    return fetch


def scope(
    stack: Stack,
    revision: Revision,
    clients: Clients,
    imported: Callable[[str], Any],
    reference: Callable[[str], Any] | None = None,
    attribute: Callable[[str, str], Any] | None = None,
    read_dynamic: bool = True,
) -> Scope:
    """The scope of `revision` on `stack`; references use the stack's resources unless given."""
    values = {name: parameter.value for name, parameter in revision.parameters.items()}

    def zones(region: str) -> list[str]:
        found = clients("ec2", region).describe_availability_zones()["AvailabilityZones"]
        return sorted(str(zone["ZoneName"]) for zone in found)

    return Scope(
        parameters={**pseudo_parameters(stack), **values},
        mappings=revision.template.mappings,
        conditions=revision.template.conditions,
        reference=reference or (lambda name: physical_id(stack, name)),
        attribute=attribute or (lambda name, key: attribute_of(stack.resources.get(name), name, key)),
        imported=imported,
        zones=zones,
        dynamic=dynamic_references(clients, stack.region) if read_dynamic else (lambda text: text),
    )


def physical_id(stack: Stack, logical_id: str) -> Any:
    resource = stack.resources.get(logical_id)
    if resource is None or resource.physical_id is None:
        if logical_id in stack.revision.template.resources:
            return NO_VALUE  # its condition does not hold
        raise ValidationError(f"Template format error: Unresolved resource dependencies [{logical_id}]")
    return resource.physical_id


def attribute_of(resource: StackResource | None, logical_id: str, key: str) -> Any:
    if resource is None:
        raise ValidationError(f"Template error: instance of Fn::GetAtt references undefined resource {logical_id}")
    if key in resource.attributes:
        return resource.attributes[key]
    value: Any = resource.attributes
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        known = ", ".join(sorted(resource.attributes)) or "none"
        raise ValidationError(
            f"Template error: resource {logical_id} ({resource.resource_type}) has no attribute {key}; has: {known}"
        )
    return value


def dynamic_references(clients: Clients, region: str) -> Callable[[str], Any]:
    """Replaces {{resolve:ssm:…}}, {{resolve:ssm-secure:…}} and {{resolve:secretsmanager:…}}."""

    def value_of(match: re.Match[str]) -> str:
        service, name = match.group(1), match.group(2)
        try:
            if service == "secretsmanager":
                return _secret(clients("secretsmanager", region), name)
            found = clients("ssm", region).get_parameter(Name=name, WithDecryption=service == "ssm-secure")
            return str(found["Parameter"]["Value"])
        except ClientError as error:
            raise ResourceError(f"could not resolve {match.group(0)}: {error}") from None

    return lambda text: _DYNAMIC.sub(value_of, text)


def _secret(client: Any, reference: str) -> str:
    """`reference` is secret-id:SecretString:json-key:version-stage:version-id; an ARN contains colons."""
    match = _SECRET.fullmatch(reference)
    if match is None:
        raise ResourceError(f"malformed secretsmanager reference {reference!r}")
    text = str(client.get_secret_value(SecretId=match.group(1))["SecretString"])
    return str(json.loads(text)[match.group(2)]) if match.group(2) else text
