"""Policy documents: what IAM, and the services that take policies, refuse of them.

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
_ACTION = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+")


def size(text: str) -> int:
    """As quotas count it: without white space."""
    return len(re.sub(r"\s", "", text))


def statements(text: str) -> list[dict[str, Any]]:
    """Raises ValueError with the reason."""
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError("This policy contains invalid Json") from None
    if not isinstance(document, dict) or "Statement" not in document:
        raise ValueError("Syntax errors in policy.")
    if document.get("Version", VERSIONS[0]) not in VERSIONS:
        raise ValueError("The policy must contain a valid version string")
    found = document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]
    if not all(isinstance(each, dict) for each in found):
        raise ValueError("Syntax errors in policy.")
    return found


def check_sids(statements_: list[dict[str, Any]]) -> None:
    """IAM's own form; other services take more."""
    for each in statements_:
        if not re.fullmatch(r"[A-Za-z0-9]*", str(each.get("Sid") or "")):
            raise ValueError("Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular "
                             "expression [0-9A-Za-z]*")  # fmt: skip


def check(text: str, *, resource_policy: bool) -> list[dict[str, Any]]:
    """A document's statements. `resource_policy`: it belongs to a resource, and so names principals."""
    found = statements(text)
    for each in found:
        _check_statement(each, resource_policy=resource_policy)
    return found


def _check_statement(statement: dict[str, Any], *, resource_policy: bool) -> None:
    if set(statement) - _ELEMENTS or statement.get("Effect") not in ("Allow", "Deny"):
        raise ValueError("Syntax errors in policy.")
    if ("Action" in statement) == ("NotAction" in statement):
        raise ValueError("Policy statement must contain actions.")
    for action in listed(statement.get("Action") or statement.get("NotAction")):
        if not _ACTION.fullmatch(str(action)):
            raise ValueError(f"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.: {action}")
    for name in ("Principal", "Resource"):
        if name in statement and f"Not{name}" in statement:
            raise ValueError(f"Syntax errors in policy: {name} and Not{name} exclude each other.")
    principals = "Principal" in statement or "NotPrincipal" in statement
    if resource_policy and not principals:
        raise ValueError("Missing required field Principal")
    if not resource_policy and principals:
        raise ValueError("Policy document should not specify a principal.")


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
