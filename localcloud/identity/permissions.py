"""IAM policy evaluation, and its limits.

`evaluate` decides one action on one resource from identity policies, as IAM does: an explicit Deny wins, then an
Allow, otherwise the call is denied.

Supported: Action and NotAction, Resource and NotResource with `*` and `?`; policy variables such as
`${aws:userid}` where the context has the key; the operators StringEquals, StringNotEquals, their IgnoreCase forms,
StringLike, StringNotLike, ArnEquals, ArnLike, ArnNotEquals, ArnNotLike, Bool, Null, the Numeric comparisons, each with
IfExists, ForAnyValue: and ForAllValues:. A permissions boundary limits as on AWS. A condition key that the context
lacks is absent, as on AWS: positive operators then fail.

Not supported: Date and IpAddress operators (they never match), session policies, service control policies, and
resource policies other than those that moto evaluates for S3. `localcloud.identity.resources` says which resources and
condition keys a call has; if it knows no resource for a call, only the action is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

Policy = Mapping[str, Any]
Context = Mapping[str, tuple[str, ...]]
UNKNOWN_RESOURCE = ""  # matches every Resource element

ALLOWED, IMPLICIT_DENY, EXPLICIT_DENY = "allowed", "implicit deny", "explicit deny"


def evaluate(policies: Iterable[Policy], action: str, resource: str, context: Context) -> str:
    """ALLOWED, IMPLICIT_DENY or EXPLICIT_DENY."""
    lowered = {key.lower(): values for key, values in context.items()}
    decision = IMPLICIT_DENY
    for statement in (s for policy in policies for s in _list(policy.get("Statement", []))):
        if _applies(statement, action, resource, lowered):
            if statement["Effect"] == "Deny":
                return EXPLICIT_DENY
            decision = ALLOWED
    return decision


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _applies(statement: Mapping[str, Any], action: str, resource: str, context: Context) -> bool:
    return (
        _action_matches(statement, action)
        and _resource_matches(statement, resource, context)
        and all(
            _condition(operator, key, _list(values), context)
            for operator, keys in (statement.get("Condition") or {}).items()
            for key, values in keys.items()
        )
    )


def _action_matches(statement: Mapping[str, Any], action: str) -> bool:
    if "NotAction" in statement:
        return not any(_like(pattern.lower(), action.lower()) for pattern in _list(statement["NotAction"]))
    return any(_like(pattern.lower(), action.lower()) for pattern in _list(statement.get("Action", [])))


def _resource_matches(statement: Mapping[str, Any], resource: str, context: Context) -> bool:
    if resource == UNKNOWN_RESOURCE:
        return True
    if "NotResource" in statement:
        return not any(_like(_filled(p, context), resource) for p in _list(statement["NotResource"]))
    return any(_like(_filled(p, context), resource) for p in _list(statement.get("Resource", [])))


def _filled(pattern: str, context: Context) -> str:
    """The pattern with its policy variables replaced; a variable that the context lacks stays and matches nothing."""
    return re.sub(r"\$\{([^}]+)\}", lambda m: (context.get(m[1].lower()) or (m[0],))[0], pattern)


@lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def _like(pattern: str, value: str) -> bool:
    return _pattern(pattern).fullmatch(value) is not None


def _equal_ignoring_case(pattern: str, value: str) -> bool:
    return pattern.lower() == value.lower()


def _equal(pattern: str, value: str) -> bool:
    return pattern == value


def _numeric(compare: Callable[[float, float], bool]) -> Callable[[str, str], bool]:
    def test(wanted: str, value: str) -> bool:
        try:
            return compare(float(value), float(wanted))
        except ValueError:
            return False

    return test


_TESTS: dict[str, Callable[[str, str], bool]] = {
    "stringequals": _equal,
    "stringequalsignorecase": _equal_ignoring_case,
    "stringlike": _like,
    "arnequals": _like,
    "arnlike": _like,
    "bool": _equal_ignoring_case,
    "numericequals": _numeric(lambda value, wanted: value == wanted),
    "numericlessthan": _numeric(lambda value, wanted: value < wanted),
    "numericlessthanequals": _numeric(lambda value, wanted: value <= wanted),
    "numericgreaterthan": _numeric(lambda value, wanted: value > wanted),
    "numericgreaterthanequals": _numeric(lambda value, wanted: value >= wanted),
}
_NEGATED = {
    "stringnotequals": "stringequals",
    "stringnotequalsignorecase": "stringequalsignorecase",
    "stringnotlike": "stringlike",
    "arnnotequals": "arnequals",
    "arnnotlike": "arnlike",
    "numericnotequals": "numericequals",
}


def _condition(operator: str, key: str, wanted: list[Any], context: Context) -> bool:
    name = operator.lower()
    values = context.get(key.lower(), ())
    patterns = [_filled(_text(w), context) for w in wanted]
    if name == "null":
        return (not values) == (patterns[0].lower() == "true")
    quantifier, _, name = name.rpartition(":")
    if name.endswith("ifexists"):
        name = name.removesuffix("ifexists")
        if not values:
            return True
    if name in _NEGATED:
        test = _TESTS[_NEGATED[name]]
        return not any(test(pattern, value) for pattern in patterns for value in values)
    if name not in _TESTS:
        return False
    matches = [any(_TESTS[name](pattern, value) for pattern in patterns) for value in values]
    return all(matches) if quantifier == "forallvalues" else any(matches)


def _text(value: Any) -> str:
    """JSON's booleans and numbers as policies spell them."""
    return str(value).lower() if isinstance(value, bool) else str(value)
