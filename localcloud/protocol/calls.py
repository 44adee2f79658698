"""The AWS call of an HTTP request: its service, region, action and access key."""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from moto.core.request import Request
from moto.core.routing import ServiceOperationRouter, get_service_router
from werkzeug.exceptions import HTTPException

Environ = dict[str, Any]
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/\d+/([^/]+)/([^/]+)/aws4_request")
_LIMIT_BYTES = 16 * 1024 * 1024  # no query or JSON request of AWS is larger
# services whose action follows from method and path
REST_SERVICES = {"s3": "s3", "route53": "route53", "lambda": "lambda", "elasticfilesystem": "efs", "dlm": "dlm"}


@dataclass(frozen=True)
class Call:
    service: str  # as in the credential scope, in lower case; "" if the request is not signed
    region: str
    action: str  # "" if unknown
    access_key_id: str
    form: dict[str, str] = field(default_factory=dict)  # query protocol: the flat parameters
    body: bytes = b""  # JSON protocols and Route 53's XML; empty for s3
    path: str = ""
    if_none_match: str = ""  # the header, which is a condition key of S3


def identify(environ: Environ) -> Call:
    """Reads the body of query and JSON requests and puts it back."""
    access_key_id, region, service = _credential(environ)
    path = str(environ.get("PATH_INFO", ""))
    content_type = str(environ.get("CONTENT_TYPE", ""))
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    body, form = b"", _flat(str(environ.get("QUERY_STRING", "")))
    query_or_json = ("application/x-www-form-urlencoded", "application/x-amz-json")
    if target or service == "route53" or content_type.startswith(query_or_json):
        body = _unpacked(read_body(environ, _LIMIT_BYTES), environ)
    if content_type.startswith("application/x-www-form-urlencoded"):
        form |= _flat(body.decode("utf-8", "replace"))
    action = form.get("Action") or target.rpartition(".")[2] or _path_action(path) or _rest_action(service, environ)
    return Call(service, region, action, access_key_id, form, body, path, str(environ.get("HTTP_IF_NONE_MATCH", "")))


def _credential(environ: Environ) -> tuple[str, str, str]:
    header = str(environ.get("HTTP_AUTHORIZATION", ""))
    if found := _CREDENTIAL.search(header):
        return found[1], found[2], found[3].lower()
    query = _flat(str(environ.get("QUERY_STRING", "")))
    if "AWSAccessKeyId" in query and "Signature" in query:  # Signature Version 2 in a presigned URL of S3
        return query["AWSAccessKeyId"], "us-east-1", "s3"
    parts = query.get("X-Amz-Credential", "").split("/")
    return (parts[0], parts[2], parts[3].lower()) if len(parts) == 5 else ("", "us-east-1", "")


def _flat(query: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}


def read_body(environ: Environ, limit_bytes: int) -> bytes:
    """Reads the body and puts it back for the next reader. Returns b"" if it exceeds the limit."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 < length <= limit_bytes:
        return b""
    body: bytes = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _unpacked(body: bytes, environ: Environ) -> bytes:
    """SDKs compress long requests of services that accept it: PutMetricData from 10,240 bytes on."""
    if environ.get("HTTP_CONTENT_ENCODING") != "gzip":
        return body
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(body)).read(_LIMIT_BYTES)
    except (OSError, EOFError):
        return b""


def _path_action(path: str) -> str:
    """Smithy's RPC protocol: /service/GraniteServiceVersion20100801/operation/PutMetricData."""
    found = re.fullmatch(r"/service/[^/]+/operation/(\w+)", path)
    return found[1] if found else ""


def _rest_action(service: str, environ: Environ) -> str:
    if service not in REST_SERVICES:
        return ""
    try:
        operation, _ = _router(REST_SERVICES[service]).match(Request(environ))
    except (HTTPException, NotImplementedError):
        return ""
    return str(operation.name)


@lru_cache(maxsize=16)
def _router(service: str) -> ServiceOperationRouter:
    return get_service_router(service)
