"""A call's parameters in the structure of its service's model, for every protocol."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from botocore.model import OperationModel, Shape
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from werkzeug.datastructures import Headers, MultiDict
from werkzeug.exceptions import HTTPException

from localcloud.protocol.calls import Call, Environ, read_body
from localcloud.validation.refusal import Refusal

# name in the credential scope -> botocore's, if they differ
_MODELS = {
    "monitoring": "cloudwatch",
    "elasticfilesystem": "efs",
    "elasticloadbalancing": "elbv2",
    "servicequotas": "service-quotas",
    "tagging": "resourcegroupstaggingapi",
}
_SAME = (
    "iam", "sts", "ssm", "secretsmanager", "kms", "logs", "sns", "sqs", "budgets", "rds", "route53", "fsx", "dynamodb",
    "dlm", "ce", "ec2-instance-connect", "cloudtrail", "autoscaling", "lambda", "ecr", "resource-groups", "pricing",
    "events", "sagemaker",
)  # fmt: skip
_ELB = "2012-06-01"  # version of the classic load balancers' API, which has the same name in signatures
_LIMIT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Asked:
    """A parsed request."""

    service: str  # botocore's name
    action: str
    protocol: str
    shape: Shape | None
    parameters: dict[str, Any]


def parse(call: Call, environ: Environ) -> Asked | None:
    """None if calls of the service are not checked against its model."""
    service = _MODELS.get(call.service) or (call.service if call.service in _SAME else None)
    if service is None or not call.action or call.form.get("Version") == _ELB:
        return None
    operation = _operation(service, call.action)
    protocol = _protocol(service, call)
    if operation is None:
        raise unknown(call, protocol)
    shape = operation.input_shape
    if shape is None:
        return Asked(service, call.action, protocol, None, {})
    return Asked(service, call.action, protocol, shape, _parameters(service, operation, protocol, call, environ))


def unknown(call: Call, protocol: str) -> Refusal:
    if protocol == "json":
        return Refusal("UnknownOperationException", "")
    return Refusal("InvalidAction", f"The action {call.action} is not valid for this web service.")


@lru_cache(maxsize=2048)
def _operation(service: str, action: str) -> OperationModel | None:
    model = get_service_model(service)
    return model.operation_model(action) if action in model.operation_names else None


def _protocol(service: str, call: Call) -> str:
    spoken = get_service_model(service).metadata.get("protocols") or [get_service_model(service).protocol]
    if call.form.get("Action"):
        return "query"
    return next((name for name in ("json", "rest-json", "rest-xml") if name in spoken), str(spoken[0]))


def _parameters(service: str, operation: OperationModel, protocol: str, call: Call, environ: Environ) -> dict[str, Any]:
    if protocol == "json":
        return _json(call)
    values: MultiDict[str, str] = MultiDict(call.form)
    headers, body, labels = Headers(), call.body, {}
    if protocol.startswith("rest"):
        request = Request(environ)
        headers, labels, body = request.headers, _labels(service, request), body or read_body(environ, _LIMIT_BYTES)
    parsed = PROTOCOL_PARSERS[protocol](operation).parse(
        {"method": str(environ.get("REQUEST_METHOD", "POST")), "values": values, "headers": headers, "body": body,
         "url_path": call.path, "url_params": labels}
    )  # fmt: skip
    return {name: value for name, value in parsed.items() if value != [] or not _is_in_query(operation, name)}


def _is_in_query(operation: OperationModel, member: str) -> bool:
    """moto's parser returns empty lists for these members if the URL has none."""
    shape = operation.input_shape
    return bool(shape and shape.members[member].serialization.get("location") == "querystring")


def _json(call: Call) -> dict[str, Any]:
    try:
        parsed = json.loads(call.body or b"{}")
    except ValueError:
        raise Refusal("SerializationException", "") from None
    if not isinstance(parsed, dict):
        raise Refusal("SerializationException", "Start of structure or map found where not expected.")
    return parsed


def _labels(service: str, request: Request) -> dict[str, Any]:
    try:
        return dict(get_service_router(service).match(request)[1])
    except (HTTPException, NotImplementedError):
        return {}
