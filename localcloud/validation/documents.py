"""Rules of IAM, and of services that accept policies, for policy documents.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
"""

from __future__ import annotations

import json
import re
from typing import Any

VERSIONS = ("2012-10-17", "2008-10-17")
_ELEMENTS = {
    "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition",
}  # fmt: skip
_MEMBERS = {"Version", "Id", "Statement"}
_ACTION = re.compile(r"\*|\*:\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+")
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
_OPERATOR = re.compile(
    r"(ForAllValues:|ForAnyValue:)?(String(Not)?(Equals(IgnoreCase)?|Like)|Arn(Not)?(Equals|Like)|(Not)?IpAddress"
    r"|(Numeric|Date)(Not)?Equals|(Numeric|Date)(Less|Greater)Than(Equals)?|Bool|BinaryEquals|Null)(IfExists)?",
    re.IGNORECASE,
)


def size(text: str) -> int:
    """Quotas do not count white space."""
    return len(re.sub(r"\s", "", text))


def statements(text: str) -> list[dict[str, Any]]:
    """Raises ValueError with the reason."""
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("This policy contains invalid Json") from None
    if not isinstance(document, dict) or "Statement" not in document or set(document) - _MEMBERS:
        raise ValueError("Syntax errors in policy.")
    if document.get("Version", VERSIONS[0]) not in VERSIONS:
        raise ValueError("The policy must contain a valid version string")
    found = document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]
    if not all(isinstance(each, dict) for each in found):
        raise ValueError("Syntax errors in policy.")
    return found


def check_sids(statements_: list[dict[str, Any]]) -> None:
    """IAM's form; other services accept more characters."""
    for each in statements_:
        if not re.fullmatch(r"[A-Za-z0-9]*", str(each.get("Sid") or "")):
            raise ValueError("Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular "
                             "expression [0-9A-Za-z]*")  # fmt: skip


def check(text: str, *, resource_policy: bool) -> list[dict[str, Any]]:
    """The statements of a valid document. `resource_policy`: it belongs to a resource, so it must name principals."""
    found = statements(text)
    for each in found:
        _check_statement(each, resource_policy=resource_policy)
    return found


def _check_statement(statement: dict[str, Any], *, resource_policy: bool) -> None:
    if set(statement) - _ELEMENTS or statement.get("Effect") not in ("Allow", "Deny"):
        raise ValueError("Syntax errors in policy.")
    if ("Action" in statement) == ("NotAction" in statement):
        raise ValueError("Policy statement must contain actions.")
    actions = listed(statement["Action"] if "Action" in statement else statement["NotAction"])
    if not actions or not all(isinstance(action, str) for action in actions):
        raise ValueError("Syntax errors in policy.")
    for action in actions:
        if not _ACTION.fullmatch(action):
            raise ValueError(f"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.: {action}")
    for name in ("Principal", "Resource"):
        if name in statement and f"Not{name}" in statement:
            raise ValueError(f"Syntax errors in policy: {name} and Not{name} exclude each other.")
    for name in ("Resource", "NotResource"):
        if not all(isinstance(resource, str) for resource in listed(statement.get(name))):
            raise ValueError("Syntax errors in policy.")
    _check_condition(statement.get("Condition", {}))
    principals = "Principal" in statement or "NotPrincipal" in statement
    if resource_policy and not principals:
        raise ValueError("Missing required field Principal")
    if not resource_policy and principals:
        raise ValueError("Policy document should not specify a principal.")


def _check_condition(condition: Any) -> None:
    """Checks a mapping of operators to keys to values."""
    if not isinstance(condition, dict):
        raise ValueError("Syntax errors in policy.")
    for operator, keys in condition.items():
        if not _OPERATOR.fullmatch(str(operator)):
            raise ValueError(f"Invalid Condition type : {operator}.")
        if not isinstance(keys, dict) or any(isinstance(value, dict) for value in keys.values()):
            raise ValueError("Syntax errors in policy.")


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
