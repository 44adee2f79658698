"""Principals that a resource's policy may name: accounts, services, and existing roles and users of this account."""

from __future__ import annotations

import re
from typing import Any

from localcloud.clients import ACCOUNT_ID
from localcloud.identity import roles
from localcloud.validation import documents

# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
SERVICE = re.compile(r"[a-z0-9][a-z0-9.-]*\.(amazonaws\.com(\.cn)?|amazon\.com|aws\.internal)")
_KINDS = {"AWS", "Service", "Federated", "CanonicalUser"}
# An account, a principal of an account, or the unique id of a deleted principal.
_NAMED = re.compile(
    r"\*|\d{12}|arn:aws[\w-]*:(iam|sts)::(\d{12}|aws|cloudfront):(?!group/)[^*]+|A(IDA|ROA|PKA|GPA|NPA|SCA)\w+|[A-Z0-9]{16,}"
)
_OURS = tuple(f"arn:aws:iam::{ACCOUNT_ID}:{kind}/" for kind in ("role", "user"))


def check(statements: list[dict[str, Any]]) -> None:
    """Raises ValueError with the invalid principal."""
    stores: tuple[Any, Any] = (roles.iam().roles, roles.iam().users)
    known = {each.arn for store in stores for each in list(store.values())}
    for statement in statements:
        for name in ("Principal", "NotPrincipal"):
            if name in statement:
                _check_one(statement[name], known)


def _check_one(named: Any, known: set[str]) -> None:
    if isinstance(named, str) and named != "*":
        raise ValueError(f'Invalid principal in policy: "{named}"')
    for kind, values in named.items() if isinstance(named, dict) else ():
        for value in map(str, documents.listed(values)):
            unknown = value.startswith(_OURS) and value not in known
            if (
                (kind == "AWS" and (unknown or not _NAMED.fullmatch(value)))
                or kind not in _KINDS
                or (kind == "Service" and not SERVICE.fullmatch(value))
            ):
                raise ValueError(f'Invalid principal in policy: "{kind.upper()}":"{value}"')
