"""The policy evaluator, by tables."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.identity.permissions import ALLOWED, EXPLICIT_DENY, IMPLICIT_DENY, UNKNOWN_RESOURCE, evaluate

INSTANCE = "arn:aws:ec2:us-east-1:123456789012:instance/i-0123456789abcdef0"
TEMPLATE = "arn:aws:ec2:us-east-1:123456789012:launch-template/lt-1"


def statement(effect: str = "Allow", **elements: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": "ec2:TerminateInstances", "Resource": "*"} | elements


def decide(
    *statements: dict[str, Any], action: str = "ec2:TerminateInstances", resource: str = INSTANCE, **context: Any
) -> str:
    keys = {key: value if isinstance(value, tuple) else (value,) for key, value in context.get("context", {}).items()}
    return evaluate([{"Statement": list(statements)}], action, resource, keys)


@pytest.mark.parametrize(
    ("statements", "decision"),
    [
        ([], IMPLICIT_DENY),
        ([statement()], ALLOWED),
        ([statement(Action="ec2:*")], ALLOWED),
        ([statement(Action="EC2:terminateinstances")], ALLOWED),
        ([statement(Action=["ec2:RunInstances", "ec2:Term*"])], ALLOWED),
        ([statement(Action="ec2:RunInstances")], IMPLICIT_DENY),
        ([statement(Action="ec2:TerminateInstance")], IMPLICIT_DENY),
        ([statement(), statement("Deny")], EXPLICIT_DENY),
        ([statement("Deny"), statement()], EXPLICIT_DENY),
        ([statement(), statement("Deny", Action="ec2:RunInstances")], ALLOWED),
        ([{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}], ALLOWED),
        ([{"Effect": "Allow", "NotAction": "ec2:*", "Resource": "*"}], IMPLICIT_DENY),
        ([statement(Resource=INSTANCE)], ALLOWED),
        ([statement(Resource="arn:aws:ec2:*:*:instance/*")], ALLOWED),
        ([statement(Resource="arn:aws:ec2:*:*:instance/i-0123456789abcdef?")], ALLOWED),
        ([statement(Resource=["arn:aws:ec2:*:*:volume/*"])], IMPLICIT_DENY),
        ([{"Effect": "Allow", "Action": "*", "NotResource": INSTANCE}], IMPLICIT_DENY),
        ([{"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::*"}], ALLOWED),
    ],
)
def test_actions_and_resources(statements: list[dict[str, Any]], decision: str) -> None:
    assert decide(*statements) == decision


@pytest.mark.parametrize(
    ("operator", "key", "wanted", "context", "holds"),
    [
        ("StringEquals", "aws:ResourceTag/cluster", "a", {"aws:ResourceTag/cluster": "a"}, True),
        ("StringEquals", "aws:resourcetag/cluster", "a", {"aws:ResourceTag/cluster": "a"}, True),
        ("StringEquals", "aws:ResourceTag/cluster", "a", {"aws:ResourceTag/cluster": "b"}, False),
        ("StringEquals", "aws:ResourceTag/cluster", "a", {}, False),
        ("StringEquals", "aws:ResourceTag/cluster", ["b", "a"], {"aws:ResourceTag/cluster": "a"}, True),
        ("StringEquals", "ec2:CreateAction", "RunInstances", {"ec2:CreateAction": "RunInstances"}, True),
        ("StringEqualsIgnoreCase", "k", "AbC", {"k": "aBc"}, True),
        ("StringEqualsIfExists", "k", "a", {}, True),
        ("StringEqualsIfExists", "k", "a", {"k": "b"}, False),
        ("StringNotEquals", "k", "a", {"k": "b"}, True),
        ("StringNotEquals", "k", "a", {"k": "a"}, False),
        ("StringNotEquals", "k", "a", {}, True),
        ("StringLike", "k", "train-*", {"k": "train-1"}, True),
        ("StringLike", "k", "train-*", {"k": "test-1"}, False),
        ("ArnLike", "ec2:LaunchTemplate", TEMPLATE, {"ec2:LaunchTemplate": TEMPLATE}, True),
        ("ArnLike", "ec2:LaunchTemplate", TEMPLATE[:-1] + "*", {"ec2:LaunchTemplate": TEMPLATE}, True),
        ("ArnEquals", "ec2:LaunchTemplate", TEMPLATE, {}, False),
        ("ArnNotLike", "ec2:LaunchTemplate", TEMPLATE, {"ec2:LaunchTemplate": TEMPLATE}, False),
        ("Bool", "aws:SecureTransport", "true", {"aws:SecureTransport": "true"}, True),
        ("Bool", "aws:SecureTransport", False, {"aws:SecureTransport": "true"}, False),
        ("Null", "aws:RequestTag/x", "true", {}, True),
        ("Null", "aws:RequestTag/x", "true", {"aws:RequestTag/x": "1"}, False),
        ("Null", "aws:RequestTag/x", "false", {"aws:RequestTag/x": "1"}, True),
        ("NumericLessThanEquals", "k", 5, {"k": "5"}, True),
        ("NumericGreaterThan", "k", "5", {"k": "5"}, False),
        ("ForAllValues:StringEquals", "aws:TagKeys", ["a", "b"], {"aws:TagKeys": ("a",)}, True),
        ("ForAllValues:StringEquals", "aws:TagKeys", ["a", "b"], {"aws:TagKeys": ("a", "c")}, False),
        ("ForAllValues:StringEquals", "aws:TagKeys", ["a"], {}, True),
        ("ForAnyValue:StringEquals", "aws:TagKeys", ["a"], {"aws:TagKeys": ("a", "c")}, True),
        ("ForAnyValue:StringLike", "aws:TagKeys", ["x*"], {"aws:TagKeys": ("a", "c")}, False),
        ("IpAddress", "aws:SourceIp", "10.0.0.0/8", {"aws:SourceIp": "10.0.0.1"}, False),
    ],
)
def test_conditions(operator: str, key: str, wanted: Any, context: dict[str, Any], holds: bool) -> None:
    decision = decide(statement(Condition={operator: {key: wanted}}), context=context)
    assert decision == (ALLOWED if holds else IMPLICIT_DENY)


def test_every_condition_of_a_statement_must_hold() -> None:
    both = statement(Condition={"StringEquals": {"a": "1"}, "StringLike": {"b": "2*"}})
    assert decide(both, context={"a": "1", "b": "22"}) == ALLOWED
    assert decide(both, context={"a": "1", "b": "3"}) == IMPLICIT_DENY


def test_a_deny_whose_condition_fails_denies_nothing() -> None:
    insecure = statement("Deny", Condition={"Bool": {"aws:SecureTransport": "false"}})
    assert decide(statement(), insecure, context={"aws:SecureTransport": "true"}) == ALLOWED


def test_policy_variables_are_filled_from_the_context() -> None:
    own = statement(Resource="arn:aws:s3:::bucket/${aws:userid}/*", Action="s3:GetObject")
    resource = "arn:aws:s3:::bucket/AROA:i-1/x"
    assert decide(own, action="s3:GetObject", resource=resource, context={"aws:userid": "AROA:i-1"}) == ALLOWED
    assert decide(own, action="s3:GetObject", resource=resource, context={"aws:userid": "AROA:i-2"}) == IMPLICIT_DENY
    assert decide(own, action="s3:GetObject", resource=resource) == IMPLICIT_DENY


def test_a_call_with_an_unknown_resource_is_decided_by_its_action() -> None:
    narrow = statement(Resource="arn:aws:ec2:*:*:volume/vol-1")
    assert decide(narrow, resource=UNKNOWN_RESOURCE) == ALLOWED
    assert decide(narrow, action="ec2:RunInstances", resource=UNKNOWN_RESOURCE) == IMPLICIT_DENY


def test_statement_and_resource_may_be_single_or_lists() -> None:
    single: dict[str, Any] = {"Statement": statement(Resource=[INSTANCE])}
    assert evaluate([single], "ec2:TerminateInstances", INSTANCE, {}) == ALLOWED
