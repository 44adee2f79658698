"""Parameters that must be JSON, ARNs or names, by service, with the service's error code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from localcloud.validation import documents
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters

Fits = Callable[[str], Any]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _is_policy(text: str) -> bool:
    try:
        return bool(documents.check(text, resource_policy=True))
    except ValueError:
        return False


def _is_pattern(text: str) -> bool:
    """A filter pattern of log events, whose brackets and quotes are closed."""
    ends = {"{": "}", "[": "]"}.get(text.strip()[:1])
    return text.strip().endswith(ends or "") and text.replace('\\"', "").count('"') % 2 == 0


_arn: Fits = re.compile(r"arn:aws[\w-]*:[\w-]+:[\w-]*:\d*:.+").fullmatch
_email: Fits = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+").fullmatch
_board: Fits = re.compile(r"[A-Za-z0-9_-]{1,255}").fullmatch

# service and parameter: the check, the code and the message
FORMS: dict[tuple[str, str], tuple[Fits, str, str]] = {
    ("efs", "Policy"): (_is_policy, "InvalidPolicyException", "The policy is not valid JSON."),
    ("sts", "Policy"): (_is_object, "MalformedPolicyDocument", "This policy contains invalid Json"),
    ("secretsmanager", "ResourcePolicy"): (_is_policy, "MalformedPolicyDocumentException", "The policy is not valid."),
    ("logs", "policyDocument"): (_is_object, "InvalidParameterException", "The policy document is not valid JSON."),
    ("events", "EventPattern"): (_is_object, "InvalidEventPatternException", "Event pattern is not valid."),
    ("sns", "TopicArn"): (_arn, "InvalidParameter", "Invalid parameter: TopicArn"),
    ("sns", "TargetArn"): (_arn, "InvalidParameter", "Invalid parameter: TargetArn"),
    ("logs", "kmsKeyId"): (_arn, "InvalidParameterException", "The key is not named by an ARN."),
    ("elbv2", "LoadBalancerArn"): (_arn, "ValidationError", "The ARN of the load balancer is not valid"),
    ("elbv2", "TargetGroupArn"): (_arn, "ValidationError", "The ARN of the target group is not valid"),
    ("logs", "filterPattern"): (_is_pattern, "InvalidParameterException", "Invalid metric filter pattern"),
    ("cloudwatch", "DashboardName"): (
        _board, "InvalidParameterValue", "The name of a dashboard has letters, digits, - and _, at most 255.",
    ),
    ("cloudwatch", "TreatMissingData"): (
        ("breaching", "notBreaching", "ignore", "missing").__contains__, "ValidationError",
        "TreatMissingData must be one of breaching, notBreaching, ignore, missing",
    ),
    ("rds", "StorageType"): (
        ("standard", "gp2", "gp3", "io1", "io2", "aurora", "aurora-iopt1").__contains__, "InvalidParameterValue",
        "Invalid storage type",
    ),
}  # fmt: skip


def check(service: str, given: Parameters) -> None:
    for (of, member), (fits, code, words) in FORMS.items():
        value = given.get(member) if of == service else None
        if isinstance(value, str) and value and not fits(value):
            raise Refusal(code, f"{words}: {value[:80]}")


def check_addresses(subscribers: Any) -> None:
    """Checks the subscribers of a budget's notification."""
    for each in subscribers or []:
        address, kind = str(each.get("Address") or ""), each.get("SubscriptionType")
        if kind == "EMAIL" and not _email(address):
            raise Refusal("InvalidParameterException", f"The e-mail address {address} is not valid.")
        if kind == "SNS" and not _arn(address):
            raise Refusal("InvalidParameterException", f"The SNS topic {address} is not named by an ARN.")
