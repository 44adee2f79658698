"""Checks calls of users and roles against their policies. The administrator, who has the cloud's own key, may do
everything.

`localcloud.identity.permissions` says which parts of policies are evaluated, `localcloud.identity.resources` which
resources and condition keys a call has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from localcloud.clients import ACCOUNT_ID
from localcloud.identity import permissions, resources, roles
from localcloud.identity.roles import Session
from localcloud.pace.hooks import Pace
from localcloud.protocol.calls import Call

ALWAYS_ALLOWED = ("sts:GetCallerIdentity",)
Policies = tuple[list[dict[str, Any]], dict[str, Any] | None]
"""A principal's policies and its permissions boundary."""


@dataclass(frozen=True)
class Denial:
    user_arn: str
    action: str
    resource: str
    explicit: bool
    refusal: tuple[str, str] | None = None
    """The service's own code and message."""

    def __str__(self) -> str:
        """In AWS's words."""
        subject = f" on resource: {self.resource}" if self.resource else ""
        reason = (
            "with an explicit deny in an identity-based policy"
            if self.explicit
            else f"because no identity-based policy allows the {self.action} action"
        )
        return f"User: {self.user_arn} is not authorized to perform: {self.action}{subject} {reason}"


@dataclass(frozen=True)
class Decision:
    """The permissions that a call needs, and the first one that the caller lacks."""

    checks: tuple[resources.Check, ...] = ()
    denial: Denial | None = None
    late_denial: Denial | None = None
    """The permission for which the service asks after it has accepted the call."""


LATE_DENIAL: ContextVar[Denial | None] = ContextVar("late_denial", default=None)
"""While a call is served: its decision's `late_denial`."""


class Judge:
    def __init__(self, pace: Pace, checkers: Mapping[str, resources.Checker]) -> None:
        """`checkers`: by service, see `localcloud.identity.resources.checks`."""
        self._pace = pace
        self._checkers = checkers

    def judge(self, call: Call, session: Session | None) -> Decision:
        """The caller holds the call's locks. IAM's records need no lock, because this reads copies of them."""
        if session is None or not call.action:
            return Decision()
        policies, boundary = self._policies(session)
        common = _common_keys(call, session, session.arn)
        needed = tuple(check for check in resources.checks(call, self._checkers) if check.action not in ALWAYS_ALLOWED)

        def first(checks: Iterable[resources.Check]) -> Denial | None:
            for check in checks:
                keys = common | _account(check.resource) | check.keys
                decision = permissions.evaluate(policies, check.action, check.resource, keys)
                if decision == permissions.ALLOWED and boundary is not None:
                    decision = permissions.evaluate([boundary], check.action, check.resource, keys)
                if decision != permissions.ALLOWED:
                    explicit = decision == permissions.EXPLICIT_DENY
                    return Denial(session.arn, check.action, check.resource, explicit, check.refusal)
            return None

        late = first(check for check in needed if check.late)
        return Decision(needed, first(check for check in needed if not check.late), late)

    def _policies(self, session: Session) -> Policies:
        if session.user_name:
            return _user_policies(session.user_name)
        return self._pace.policies(session.role_name, policies_of(session.role_name))


def _common_keys(call: Call, session: Session, user_arn: str) -> resources.Keys:
    from_instance = session.instance_id.startswith("i-")
    source = (f"arn:aws:ec2:{call.region}:{ACCOUNT_ID}:instance/{session.instance_id}",) if from_instance else ()
    return {
        "aws:RequestedRegion": (call.region,),
        "aws:PrincipalArn": (session.principal_arn,),
        "aws:PrincipalAccount": (ACCOUNT_ID,),
        "aws:PrincipalType": ("User" if session.user_name else "AssumedRole",),
        "aws:ResourceAccount": (ACCOUNT_ID,),
        "aws:userid": (user_arn.rpartition("/")[2],),
        "aws:SecureTransport": ("true",),  # policies treat loopback and the VPC's network like TLS
        "ec2:SourceInstanceARN": source,
    }


def _account(arn: str) -> resources.Keys:
    """The account that owns the resource, if its ARN says so: a role to assume may be another account's."""
    parts = arn.split(":", 5)
    return {"aws:ResourceAccount": (parts[4],)} if len(parts) > 4 and parts[4].isdigit() else {}


def policies_of(role_name: str) -> Policies:
    """The role's inline and managed policies, and its permissions boundary."""
    iam = roles.iam()
    role = next((role for role in list(iam.roles.values()) if role.name == role_name), None)
    if role is None:
        return [], None  # a running instance's role was deleted, so nothing is allowed
    documents = [_document(text) for text in list(role.policies.values())]
    documents += [_document(text) for text in _managed(role)]
    if not role.permissions_boundary_arn:
        return documents, None
    return documents, _document(_text_of(iam.managed_policies[role.permissions_boundary_arn]))


def _user_policies(user_name: str) -> Policies:
    """The user's policies and those of its groups."""
    iam = roles.iam()
    holders: list[Any] = [iam.get_user(user_name), *iam.get_groups_for_user(user_name)]
    own = [text for holder in holders for text in holder.policies.values()]
    managed = [text for holder in holders for text in _managed(holder)]
    return [_document(text) for text in (*own, *managed)], None


def _managed(role: Any) -> Iterator[str]:
    for policy in list(role.managed_policies.values()):
        yield _text_of(policy)


def _text_of(policy: Any) -> str:
    """The default version's document."""
    return next(str(version.document) for version in policy.versions if version.is_default)


def _document(text: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(text) if isinstance(text, str) else text
    return parsed
