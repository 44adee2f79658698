"""CloudFormation's Query API: `handle` answers a request with AWS's XML. The server mounts it."""

from __future__ import annotations

import functools
import logging
import re
import uuid
from typing import Any
from xml.sax.saxutils import escape

from moto.core.parse import QueryParser, RequestDict
from moto.core.serialize import QuerySerializer, SerializationContext
from moto.core.utils import get_service_model
from werkzeug import Request, Response
from werkzeug.datastructures import MultiDict

from localcloud.cloudformation import change_set_actions, inspect_actions, requests, stack_actions
from localcloud.cloudformation.actions import Action
from localcloud.cloudformation.errors import CloudFormationError
from localcloud.cloudformation.service import Service

_log = logging.getLogger(__name__)
_NAMESPACE = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
_SCOPE = re.compile(r"Credential=[^/]+/\d+/([^/]+)/")
_ACTIONS: dict[str, Action] = {**stack_actions.ACTIONS, **change_set_actions.ACTIONS, **inspect_actions.ACTIONS}


@functools.cache
def _model() -> Any:
    return get_service_model("cloudformation")


def handle(request: Request, service: Service) -> Response:
    """Answers one request; every error becomes an AWS error."""
    request_id = str(uuid.uuid4())
    try:
        action = request.values.get("Action", "")
        operation = _operation(action)
        given = _parse(operation, request)
        requests.check_model(operation.input_shape, given)
        result = _ACTIONS[action](service, _region(request), given)
        context = SerializationContext(request_id=request_id)
        answer = QuerySerializer(operation, context=context).serialize(_without_none(result))
        return Response(answer["body"], status=answer["status_code"], headers=answer["headers"])
    except CloudFormationError as error:
        return _error(error.code, error.message, error.status, request_id)
    except Exception as error:
        _log.exception("request failed")
        # 400, not 500: the SDKs would retry a defect for most of a minute before showing it.
        return _error("InternalFailure", f"{type(error).__name__}: {error}", 400, request_id)


def _operation(action: str) -> Any:
    if action not in _model().operation_names:
        raise _named("InvalidAction", f"The action {action} is not valid for this web service.")
    if action not in _ACTIONS:
        raise _named(
            "UnsupportedOperation",
            f"{action} is not supported by the local cloud; supported: {', '.join(sorted(_ACTIONS))}",
        )
    return _model().operation_model(action)


def _named(code: str, message: str) -> CloudFormationError:
    error = CloudFormationError(message)
    error.code = code
    return error


def _parse(operation: Any, request: Request) -> dict[str, Any]:
    body: RequestDict = {
        "body": b"",
        "headers": request.headers,
        "method": request.method,
        "url_params": {},
        "url_path": "/",
        "values": MultiDict(request.values),
    }
    given: dict[str, Any] = QueryParser(operation).parse(body)
    return given


def _region(request: Request) -> str:
    match = _SCOPE.search(request.headers.get("Authorization", ""))
    return match.group(1) if match else "us-east-1"


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


def _error(code: str, message: str, status: int, request_id: str) -> Response:
    body = (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>Sender</Type><Code>{escape(code)}</Code>'
        f"<Message>{escape(message)}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return Response(body, status=status, content_type="text/xml")
