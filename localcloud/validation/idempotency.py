"""Idempotency tokens: after a call has succeeded, its token is accepted only with the same parameters.

https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html; FSx's and Budgets' models have the same words.
RunInstances and FSx's creations return the existing resource for a repeated request, so they check tokens themselves.
"""

from __future__ import annotations

import json
from typing import Any

from localcloud.protocol.calls import Call
from localcloud.validation.refusal import Refusal

_TOKENS = {"ec2": "ClientToken", "fsx": "ClientRequestToken"}
_CODES = {"ec2": "IdempotentParameterMismatch", "fsx": "IncompatibleParameterError"}
_ELSEWHERE = {("ec2", "RunInstances"), ("ec2", "CreateFleet"), ("fsx", "CreateFileSystem")}

_made: dict[tuple[str, str, str, str], Any] = {}
"""Requests, by service, region, action and token."""


def check(call: Call) -> None:
    key = _key(call)
    if key and key in _made and _made[key] != _request(call):
        raise Refusal(
            _CODES[call.service],
            "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
        )


def remember(call: Call) -> None:
    """Records the token of a successful call."""
    if key := _key(call):
        _made.setdefault(key, _request(call))


def _key(call: Call) -> tuple[str, str, str, str] | None:
    name = _TOKENS.get(call.service)
    if name is None or (call.service, call.action) in _ELSEWHERE:
        return None
    token = _request(call).get(name)
    return (call.service, call.region, call.action, str(token)) if token else None


def _request(call: Call) -> dict[str, Any]:
    if call.form:
        return call.form
    try:
        parsed = json.loads(call.body or b"{}")
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
