"""Page tokens: like AWS, the cloud accepts only tokens from its own answers, for as long as it runs.

moto ignores most wrong tokens and returns the first page again. The codes are those of each service's model and API
reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from localcloud.protocol.calls import Call
from localcloud.validation.refusal import Refusal

# service (in the credential scope): the parameter, and the code for an unknown token
TOKENS: dict[str, tuple[str, str]] = {
    "logs": ("nextToken", "InvalidParameterException"),
    "ssm": ("NextToken", "InvalidNextToken"),
    "secretsmanager": ("NextToken", "InvalidNextTokenException"),
    "kms": ("Marker", "InvalidMarkerException"),
    "iam": ("Marker", "ValidationError"),
    "sns": ("NextToken", "InvalidParameter"),
    "monitoring": ("NextToken", "InvalidNextToken"),
    "budgets": ("NextToken", "InvalidNextTokenException"),
    "fsx": ("NextToken", "BadRequest"),
    "s3": ("continuation-token", "InvalidArgument"),
}
# Their tokens are positions in a stream, which clients may keep.
_OPEN = {("logs", "GetLogEvents")}
_READS = ("List", "Describe", "Get")
_CONTENTS = {("s3", "GetObject")}  # the answer is an object's content, which may be long
_GIVEN = re.compile(rb'"[nN]ext(?:Token|Marker)"\s*:\s*"([^"]+)"|<(?:NextToken|Marker|NextContinuationToken)>([^<]+)</')
_given: set[str] = set()


def remember(call: Call, answer: Callable[[], bytes]) -> None:
    """Records the token of an answer, if it has one."""
    pages = call.service in TOKENS and call.action.startswith(_READS)
    if pages and (call.service, call.action) not in _CONTENTS:
        for found in _GIVEN.findall(answer()):
            _given.add((found[0] or found[1]).decode("utf-8", "replace"))


def check(call: Call, parameters: dict[str, Any]) -> None:
    name, code = TOKENS.get(call.service, ("", ""))
    token = parameters.get(name)
    if token and (call.service, call.action) not in _OPEN and str(token) not in _given:
        raise Refusal(code, f"The specified {name} is not valid: {token}")
