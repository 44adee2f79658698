"""Rules for SNS topics and budgets.

https://docs.aws.amazon.com/sns/latest/api/ and the API reference of AWS Budgets, CreateBudget.
"""

from __future__ import annotations

import json
import re

from moto.core.utils import get_service_model
from moto.sns.models import sns_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.validation import documents, principals, telemetry, texts
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters, rule

_SUBSCRIBERS = {"SNS": 1, "EMAIL": 10}
_TOPIC = re.compile(r"[a-zA-Z0-9_\-]{1,256}|[a-zA-Z0-9_\-]{1,251}\.fifo")
_TOPIC_ATTRIBUTES = (
    "Policy", "DisplayName", "DeliveryPolicy", "KmsMasterKeyId", "SignatureVersion", "TracingConfig",
    "ContentBasedDeduplication", "ArchivePolicy", "FifoThroughputScope", "DataProtectionPolicy",
)  # fmt: skip
_DEFINITIONS = {
    "APPLY_IAM_POLICY": "IamActionDefinition", "APPLY_SCP_POLICY": "ScpActionDefinition",
    "RUN_SSM_DOCUMENTS": "SsmActionDefinition",
}  # fmt: skip
_LIMITS = ("BudgetLimit", "PlannedBudgetLimits", "AutoAdjustData")
_FEEDBACK = ("FeedbackRoleArn", "FeedbackSampleRate")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_MESSAGE_BYTES, _LONGEST_SUBJECT = 262144, 100


@rule("sns", "CreateTopic")
def topic(given: Parameters, region: str) -> None:
    if not _TOPIC.fullmatch(str(given["Name"])):
        raise Refusal("InvalidParameter", "Invalid parameter: Topic Name")


@rule("sns", "SetTopicAttributes")
def topic_attribute(given: Parameters, region: str) -> None:
    name = str(given["AttributeName"])
    if name not in _TOPIC_ATTRIBUTES and not name.endswith(_FEEDBACK):
        raise Refusal("InvalidParameter", "Invalid parameter: AttributeName")
    if name == "DisplayName" and len(str(given.get("AttributeValue") or "")) > _LONGEST_SUBJECT:
        raise Refusal("InvalidParameter", "Invalid parameter: DisplayName")


@rule("sns", "Subscribe")
def subscription(given: Parameters, region: str) -> None:
    protocol, endpoint = str(given["Protocol"]), str(given.get("Endpoint") or "")
    known = ("http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose")
    if protocol not in known:
        raise Refusal(
            "InvalidParameter", f"Invalid parameter: Amazon SNS does not support this protocol string: {protocol}"
        )
    if protocol.startswith("email") and not _EMAIL.fullmatch(endpoint):
        raise Refusal("InvalidParameter", "Invalid parameter: Email address")
    if protocol in ("http", "https") and not endpoint.startswith(f"{protocol}://"):
        raise Refusal("InvalidParameter", "Invalid parameter: Endpoint must match the specified protocol")
    if protocol in ("sqs", "lambda", "firehose") and not endpoint.startswith("arn:"):
        raise Refusal("InvalidParameter", f"Invalid parameter: {protocol.upper()} endpoint ARN")


@rule("budgets", *get_service_model("budgets").operation_names)
def own(given: Parameters, region: str) -> None:
    if given.get("AccountId") not in (None, ACCOUNT_ID):
        raise Refusal("AccessDeniedException", f"Account {given['AccountId']} is not the caller's.")


@rule("budgets", "CreateBudget", "UpdateBudget")
def spend(given: Parameters, region: str) -> None:
    """https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Spend.html"""
    wanted = given.get("Budget") or given.get("NewBudget") or {}
    unit, period = (wanted.get("BudgetLimit") or {}).get("Unit"), wanted.get("TimePeriod") or {}
    if wanted.get("BudgetType") == "COST" and unit not in (None, "USD"):
        raise Refusal("InvalidParameterException", f"The unit of a cost budget must be USD, got {unit}")
    if wanted.get("BudgetType") in ("COST", "USAGE") and not any(wanted.get(name) for name in _LIMITS):
        raise Refusal("InvalidParameterException", f"A budget needs one of {', '.join(_LIMITS)}")
    begin, end = telemetry.moment(period.get("Start")), telemetry.moment(period.get("End"))
    if begin and end and begin >= end:
        raise Refusal("InvalidParameterException", "The end of a budget's time period must be after its start.")


@rule("budgets", "CreateBudget")
def budget(given: Parameters, region: str) -> None:
    limit = (given["Budget"].get("BudgetLimit") or {}).get("Amount")
    if limit is not None and not re.fullmatch(r"\d+(\.\d+)?", str(limit)):
        raise Refusal("InvalidParameterException", f"The budget limit must be a positive number, got {limit}")
    for notification in given.get("NotificationsWithSubscribers") or []:
        _check_subscribers(notification)


def _check_subscribers(given: Parameters) -> None:
    texts.check_addresses(given.get("Subscribers"))
    kinds = [str(each.get("SubscriptionType")) for each in given.get("Subscribers") or []]
    for kind, most in _SUBSCRIBERS.items():
        if kinds.count(kind) > most:
            raise Refusal("CreationLimitExceededException", f"A notification has at most {most} {kind} subscribers.")


@rule("budgets", "CreateBudgetAction", "UpdateBudgetAction")
def action(given: Parameters, region: str) -> None:
    """https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Definition.html"""
    _check_subscribers(given)
    wanted = _DEFINITIONS.get(str(given.get("ActionType")))
    if wanted and wanted not in (given.get("Definition") or {}):
        raise Refusal("InvalidParameterException", f"An action {given['ActionType']} needs a {wanted}.")


@rule("sns", "CreateTopic", "SetTopicAttributes")
def topic_policy(given: Parameters, region: str) -> None:
    attributes = given.get("Attributes") or {given.get("AttributeName"): given.get("AttributeValue")}
    for name in ("Policy", "DeliveryPolicy"):
        if attributes.get(name):
            try:
                json.loads(attributes[name])
            except ValueError:
                raise Refusal("InvalidParameter", f"Invalid parameter: {name} failed to parse JSON") from None
    if attributes.get("Policy"):
        _check_policy(str(attributes["Policy"]))


def _check_policy(text: str) -> None:
    """Words: serverless/serverless#5519, hashicorp/terraform-provider-aws#26041."""
    try:
        found = documents.check(text, resource_policy=True)
    except ValueError:
        raise Refusal("InvalidParameter", "Invalid parameter: Policy Error: null") from None
    try:
        principals.check(found)
    except ValueError:
        raise Refusal("InvalidParameter", "Invalid parameter: Policy Error: PrincipalNotFound") from None
    actions = [str(each) for statement in found for each in documents.listed(statement.get("Action"))]
    if not all(each == "*" or each.lower().startswith("sns:") for each in actions):
        raise Refusal("InvalidParameter", "Invalid parameter: Policy statement action out of service scope!")


@rule("sns", "Publish")
def message(given: Parameters, region: str) -> None:
    text, subject = str(given.get("Message") or ""), given.get("Subject")
    if not any(given.get(name) for name in ("TopicArn", "TargetArn", "PhoneNumber")):
        raise Refusal("InvalidParameter", "Invalid parameter: TopicArn or TargetArn Reason: no value for required "
                      "parameter")  # fmt: skip
    if not text:
        raise Refusal("InvalidParameter", "Invalid parameter: Empty message")
    if given.get("MessageStructure") == "json":
        _check_structure(text)
    if len(text.encode()) > _MESSAGE_BYTES:
        raise Refusal("InvalidParameter", "Invalid parameter: Message too long")
    if subject is not None and (not 0 < len(str(subject)) <= _LONGEST_SUBJECT or "\n" in str(subject)):
        raise Refusal("InvalidParameter", "Invalid parameter: Subject")


def _check_structure(text: str) -> None:
    """https://docs.aws.amazon.com/sns/latest/api/API_Publish.html"""
    try:
        parsed = json.loads(text)
    except ValueError:
        raise Refusal(
            "InvalidParameter", "Invalid parameter: Message Structure - JSON message body failed to parse"
        ) from None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("default"), str):
        raise Refusal(
            "InvalidParameter", "Invalid parameter: Message Structure - No default entry in JSON message body"
        )


@rule("sns", "CreateTopic")
def same_topic(given: Parameters, region: str) -> None:
    """CreateTopic succeeds again for an existing topic, but not with other attributes."""
    arn = f"arn:aws:sns:{region}:{ACCOUNT_ID}:{given['Name']}"
    held, wanted = sns_backends[ACCOUNT_ID][region].topics.get(arn), given.get("Attributes") or {}
    name = wanted.get("DisplayName")
    if held is not None and name is not None and name != getattr(held, "display_name", name):
        raise Refusal("InvalidParameter", "Invalid parameter: Attributes Reason: Topic already exists with different "
                      "attributes")  # fmt: skip
