"""Page tokens: AWS takes those that it gave. moto ignores most of the others, and answers the first page again.

A token that an answer of this cloud held is good for as long as the cloud runs. The codes are those of each service's
model, and of its API reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from localcloud.protocol.calls import Call
from localcloud.validation.refusal import Refusal

# service (in the credential scope): the parameter, and the code of a token that the service did not give
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
# Numbers of log events, and positions in a stream, which stay good without being given again.
_OPEN = {("logs", "GetLogEvents"), ("logs", "FilterLogEvents"), ("monitoring", "GetMetricData")}
_READS = ("List", "Describe", "Get")
_CONTENTS = {("s3", "GetObject")}  # not an answer of the service's own, and as long as an object may be
_GIVEN = re.compile(rb'"[nN]ext(?:Token|Marker)"\s*:\s*"([^"]+)"|<(?:NextToken|Marker|NextContinuationToken)>([^<]+)</')
_given: set[str] = set()


def remember(call: Call, answer: Callable[[], bytes]) -> None:
    """The token of an answer, where it has one."""
    pages = call.service in TOKENS and call.action.startswith(_READS)
    if pages and (call.service, call.action) not in _CONTENTS:
        for found in _GIVEN.findall(answer()):
            _given.add((found[0] or found[1]).decode("utf-8", "replace"))


def check(call: Call, parameters: dict[str, Any]) -> None:
    name, code = TOKENS.get(call.service, ("", ""))
    token = parameters.get(name)
    if token and (call.service, call.action) not in _OPEN and str(token) not in _given:
        raise Refusal(code, f"The specified {name} is not valid: {token}")
