"""Logs, metrics, alarms, notifications, budgets.

https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/, AmazonCloudWatch, sns/latest/api, and the API
reference of AWS Budgets.
"""

from __future__ import annotations

import re

from localcloud.clients import ACCOUNT_ID
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters, rule

RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
_DAY_MS = 24 * 3600 * 1000
_BATCH_BYTES, _EVENT_OVERHEAD_BYTES = 1048576, 26
_SHORT_PERIODS_S = (10, 20, 30)
_LONGEST_S, _LONGEST_HOURLY_S = 86400, 604800
_SUBSCRIBERS = {"SNS": 1, "EMAIL": 10}
_MOST_NOTIFICATIONS = 10
_TOPIC = re.compile(r"[a-zA-Z0-9_\-]{1,256}|[a-zA-Z0-9_\-]{1,251}\.fifo")
_TOPIC_ATTRIBUTES = (
    "Policy", "DisplayName", "DeliveryPolicy", "KmsMasterKeyId", "SignatureVersion", "TracingConfig",
    "ContentBasedDeduplication", "ArchivePolicy", "FifoThroughputScope", "DataProtectionPolicy",
)  # fmt: skip
_FEEDBACK = ("FeedbackRoleArn", "FeedbackSampleRate")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


@rule("logs", "PutRetentionPolicy")
def retention(given: Parameters, region: str) -> None:
    if given["retentionInDays"] not in RETENTION_DAYS:  # systeminit/si#3022
        raise Refusal(
            "InvalidParameterException",
            f"Invalid retention value. Valid values are: [{', '.join(map(str, RETENTION_DAYS))}]",
        )


@rule("logs", "PutLogEvents")
def events(given: Parameters, region: str) -> None:
    times = [int(event["timestamp"]) for event in given["logEvents"]]
    if times != sorted(times):
        raise Refusal(
            "InvalidParameterException", "Log events in a single PutLogEvents request must be in chronological order."
        )
    if times and times[-1] - times[0] > _DAY_MS:
        raise Refusal(
            "InvalidParameterException",
            "The batch of log events in a single PutLogEvents request cannot span more than 24 hours.",
        )
    size = sum(len(str(event["message"]).encode()) + _EVENT_OVERHEAD_BYTES for event in given["logEvents"])
    if size > _BATCH_BYTES:
        raise Refusal("InvalidParameterException", f"Upload too large: {size} bytes exceeds limit of {_BATCH_BYTES}")


@rule("cloudwatch", "PutMetricAlarm")
def alarm(given: Parameters, region: str) -> None:
    period = given.get("Period")
    single, several = given.get("MetricName"), given.get("Metrics")
    if bool(single) == bool(several):
        raise Refusal("ValidationError", "Exactly one of MetricName and Metrics must be specified")
    if single and (not period or bool(given.get("Statistic")) == bool(given.get("ExtendedStatistic"))):
        raise Refusal("ValidationError", "Period and exactly one of Statistic and ExtendedStatistic must be specified")
    if period and period not in _SHORT_PERIODS_S and period % 60:
        raise Refusal("ValidationError", "Metric period must be 10, 20, 30, or a multiple of 60 seconds")
    spanned = int(period or 0) * int(given.get("EvaluationPeriods") or 1)
    if spanned > (_LONGEST_HOURLY_S if int(period or 0) >= 3600 else _LONGEST_S):
        raise Refusal("ValidationError", "Metrics cannot be checked across more than a day (EvaluationPeriods * Period "
                      "must be <= 86400)")  # fmt: skip
    if int(given.get("DatapointsToAlarm") or 0) > int(given.get("EvaluationPeriods") or 1):
        raise Refusal("ValidationError", "DatapointsToAlarm must be less than or equal to EvaluationPeriods")
    if given.get("Threshold") is None and not given.get("ThresholdMetricId"):
        raise Refusal("ValidationError", "Threshold or ThresholdMetricId must be specified")


@rule("cloudwatch", "PutMetricData")
def data(given: Parameters, region: str) -> None:
    namespace = str(given["Namespace"])
    if namespace.startswith("AWS/"):
        raise Refusal("InvalidParameterValue", f"The value {namespace} for parameter Namespace is invalid.")
    for number, datum in enumerate(given.get("MetricData") or [], 1):
        kinds = [name for name in ("Value", "StatisticValues", "Values") if datum.get(name) is not None]
        if len(kinds) != 1:
            code = "InvalidParameterCombination" if kinds else "MissingRequiredParameter"
            raise Refusal(code, f"MetricData.member.{number} must have exactly one of Value, Values, StatisticValues")


@rule("sns", "CreateTopic")
def topic(given: Parameters, region: str) -> None:
    if not _TOPIC.fullmatch(str(given["Name"])):
        raise Refusal("InvalidParameter", "Invalid parameter: Topic Name")


@rule("sns", "SetTopicAttributes")
def topic_attribute(given: Parameters, region: str) -> None:
    name = str(given["AttributeName"])
    if name not in _TOPIC_ATTRIBUTES and not name.endswith(_FEEDBACK):
        raise Refusal("InvalidParameter", "Invalid parameter: AttributeName")


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


@rule("budgets", "CreateBudget")
def budget(given: Parameters, region: str) -> None:
    if given["AccountId"] != ACCOUNT_ID:
        raise Refusal("AccessDeniedException", f"Account {given['AccountId']} is not the caller's.")
    limit = (given["Budget"].get("BudgetLimit") or {}).get("Amount")
    if limit is not None and not re.fullmatch(r"\d+(\.\d+)?", str(limit)):
        raise Refusal("InvalidParameterException", f"The budget limit must be a positive number, got {limit}")
    notifications = given.get("NotificationsWithSubscribers") or []
    if len(notifications) > _MOST_NOTIFICATIONS:
        raise Refusal("CreationLimitExceededException", f"A budget has at most {_MOST_NOTIFICATIONS} notifications.")
    for notification in notifications:
        kinds = [str(each.get("SubscriptionType")) for each in notification.get("Subscribers") or []]
        for kind, most in _SUBSCRIBERS.items():
            if kinds.count(kind) > most:
                raise Refusal(
                    "CreationLimitExceededException", f"A notification has at most {most} {kind} subscribers."
                )
