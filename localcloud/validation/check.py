"""Checks a call against its service's model, then against the rules."""

from __future__ import annotations

from localcloud.protocol.calls import Call, Environ
from localcloud.runtime import Locks
from localcloud.validation import (  # noqa: F401  the tables of rules register themselves
    combinations,
    constraints,
    data,
    iam,
    idempotency,
    notifications,
    references,
    refusal,
    requests,
    route53,
    rules,
    s3,
    schedules,
    stores,
    tag_lists,
    telemetry,
    texts,
    tokens,
)


def check(call: Call, environ: Environ, locks: Locks) -> None:
    """Raises a Refusal with AWS's error."""
    idempotency.check(call)
    if call.service == "s3":
        s3.check(call, environ, locks)
        tokens.check(call, call.form)
    asked = requests.parse(call, environ)
    if asked is None:
        return
    if asked.shape is not None:
        found = list(constraints.violations(asked.shape, asked.parameters))
        if found:
            raise refusal.broken(asked.service, asked.protocol, found)
    tokens.check(call, asked.parameters)
    texts.check(asked.service, asked.parameters)
    tag_lists.check(asked.service, asked.action, asked.parameters)
    combinations.check(asked.service, asked.action, asked.parameters)
    for rule in rules.of(asked.service, asked.action):
        with locks.whole:
            rule(asked.parameters, call.region)
    with locks.holding(asked.service, asked.action):
        references.check(asked.service, asked.action, asked.parameters, call.region)
