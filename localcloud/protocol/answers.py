"""Errors in the form of each AWS protocol, and values read from answers of any protocol."""

from __future__ import annotations

import json
import re
from xml.sax.saxutils import escape

from werkzeug import Response

from localcloud.protocol.calls import Call

_JSON_TYPES = ("application/x-amz-json-1.0", "application/x-amz-json-1.1")
_CODES = re.compile(rb"<Code>([\w.]+)</Code>|\"__type\":\s*\"(?:[^\"#]*#)?([\w.]+)\"")
_INSTANCE_IDS = re.compile(rb"\bi-[0-9a-f]{17}\b")


def error(call: Call, code: str, message: str, *, status: int) -> Response:
    text = escape(message)
    if call.service == "ec2":
        body = f"<Response><Errors><Error><Code>{code}</Code><Message>{text}</Message></Error></Errors></Response>"
    elif call.service == "s3":
        body = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>"
    elif not in_json(call):
        kind = "Sender" if status < 500 else "Receiver"
        inner = f"<Type>{kind}</Type><Code>{code}</Code><Message>{text}</Message>"
        body = f"<ErrorResponse><Error>{inner}</Error><RequestId>localcloud</RequestId></ErrorResponse>"
    else:
        answer = json.dumps({"__type": code, "message": message, "Message": message})
        return Response(answer, status, {"x-amzn-ErrorType": code}, content_type=_JSON_TYPES[1])
    return Response(f'<?xml version="1.0" encoding="UTF-8"?>\n{body}', status, content_type="text/xml")


def in_json(call: Call) -> bool:
    """Whether the service answers in JSON."""
    return call.service not in ("ec2", "s3", "route53") and not call.form.get("Action")


def denied(call: Call, message: str) -> Response:
    """An authorization failure: EC2's own code and message, AccessDenied elsewhere."""
    if call.service == "ec2":
        text = f"You are not authorized to perform this operation. {message}"
        return error(call, "UnauthorizedOperation", text, status=403)
    if call.service in ("s3", "route53") or call.form.get("Action"):
        return error(call, "AccessDenied", message, status=403)
    return error(call, "AccessDeniedException", message, status=400)


def throttled(call: Call) -> Response:
    if call.service == "ec2":
        return error(call, "RequestLimitExceeded", "Request limit exceeded.", status=503)
    if call.service == "s3":
        return error(call, "SlowDown", "Please reduce your request rate.", status=503)
    code = "Throttling" if call.service == "route53" or call.form.get("Action") else "ThrottlingException"
    return error(call, code, "Rate exceeded", status=400)


def unavailable(call: Call) -> Response:
    """EC2's words: MozillaSecurity/FuzzManager#603; its code: aws/aws-sdk-go-v2#2254. Route 53's code:
    pcorliss/ruby_route_53#20."""
    code = "Unavailable" if call.service == "ec2" else "ServiceUnavailable"
    return error(call, code, "The service is unavailable. Please try again shortly.", status=503)


def error_code(status: int, body: bytes) -> str | None:
    if status < 400:
        return None
    found = _CODES.search(body[:65536])
    return (found[1] or found[2]).decode() if found else str(status)


def instance_ids(text: bytes) -> list[str]:
    """Instance ids in a request or an answer, in order of appearance."""
    return list(dict.fromkeys(found.decode() for found in _INSTANCE_IDS.findall(text)))
