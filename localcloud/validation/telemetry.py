"""Rules for logs, metrics and alarms.

https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/ and AmazonCloudWatch/latest/APIReference/
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES

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
_OLDEST, _NEWEST = timedelta(days=14), timedelta(hours=2)  # timestamps of metrics, relative to now
_MOST_POINTS = 1440
_LARGEST = 2.0**360
_RETURNED = ((1,), (1, 2))  # of an anomaly detector the metric and its band


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


@rule("cloudwatch", "PutMetricAlarm")
def recovery(given: Parameters, region: str) -> None:
    """The instance exists (the message is in terraform-provider-aws, internal/service/cloudwatch/metric_alarm_test.go),
    and EC2 can recover its type: cloud-custodian issue 2935; AutoRecoverySupported in EC2's InstanceTypeInfo. Of the
    message about the type no public record was found."""
    if not any(str(arn).endswith(":ec2:recover") for arn in given.get("AlarmActions") or []):
        return
    named = {each.get("Name"): str(each.get("Value")) for each in given.get("Dimensions") or []}
    instance_id = named.get("InstanceId", "")
    instance = ec2_backends[ACCOUNT_ID][region].get_instance_by_id(instance_id)
    if instance is None:
        raise Refusal(
            "ValidationError", f"Invalid use of EC2 'Recover' action. {instance_id} is not a valid EC2 instance."
        )
    described = INSTANCE_TYPES.get(instance.instance_type, {})
    if not described.get("AutoRecoverySupported"):
        raise Refusal(
            "ValidationError",
            f"Invalid use of EC2 'Recover' action. {instance_id} is a {instance.instance_type}, which EC2 cannot "
            "recover.",
        )


@rule("cloudwatch", "PutMetricAlarm")
def queries(given: Parameters, region: str) -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDataQuery.html"""
    asked = given.get("Metrics") or []
    ids = [str(each.get("Id")) for each in asked]
    if wrong := [each for each in ids if not re.fullmatch(r"[a-z]\w*", each) or ids.count(each) > 1]:
        raise Refusal("ValidationError", f"The ids of metrics must be unique and begin with a small letter: {wrong[0]}")
    if any(bool(each.get("MetricStat")) == bool(each.get("Expression")) for each in asked):
        raise Refusal("ValidationError", "Each metric has either MetricStat or Expression")
    if (
        given.get("Metrics")
        and sum(each.get("ReturnData", True) for each in asked) not in _RETURNED[bool(given.get("ThresholdMetricId"))]
    ):
        raise Refusal("ValidationError", "Exactly one element of the metrics list should return data.")


@rule("cloudwatch", "PutMetricData")
def data(given: Parameters, region: str) -> None:
    namespace = str(given["Namespace"])
    if namespace.startswith("AWS/"):
        raise Refusal("InvalidParameterValue", f"The value {namespace} for parameter Namespace is invalid.")
    for number, datum in enumerate(given.get("MetricData") or [], 1):
        kinds = [name for name in ("Value", "StatisticValues", "Values") if datum.get(name) is not None]
        if len(kinds) != 1:
            code = "InvalidParameterCombination" if kinds else "MissingParameter"
            raise Refusal(code, f"MetricData.member.{number} must have exactly one of Value, Values, StatisticValues")
        if abs(float(datum.get("Value") or 0)) > _LARGEST:
            raise Refusal("InvalidParameterValue", f"MetricData.member.{number}.Value must be from -2^360 to 2^360.")
        if datum.get("StorageResolution") not in (None, 1, 60):
            raise Refusal("InvalidParameterValue", f"MetricData.member.{number}.StorageResolution must be 1 or 60.")
        _check_age(datum.get("Timestamp"), number)


def _check_age(given: Any, number: int) -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDatum.html"""
    time, now = moment(given), datetime.now(UTC)
    if time and not now - _OLDEST <= time <= now + _NEWEST:
        raise Refusal(
            "InvalidParameterValue",
            f"The parameter MetricData.member.{number}.Timestamp must specify a time within the past two weeks, and no "
            "more than two hours in the future.",
        )


def moment(given: Any) -> datetime | None:
    """Reads a request's time, as each protocol writes it: seconds, or a date and time."""
    if isinstance(given, datetime):
        time = given
    elif isinstance(given, int | float):
        time = datetime.fromtimestamp(given, UTC)
    elif isinstance(given, str) and given[:4].isdigit():
        time = datetime.fromisoformat(given.replace("Z", "+00:00"))
    else:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


@rule("cloudwatch", "GetMetricStatistics")
def statistics(given: Parameters, region: str) -> None:
    begin, end = moment(given.get("StartTime")), moment(given.get("EndTime"))
    if begin is None or end is None:
        return
    if begin >= end:
        raise Refusal("InvalidParameterCombination", "The parameter StartTime must be less than the parameter EndTime.")
    points = int((end - begin).total_seconds()) // int(given["Period"])
    if points > _MOST_POINTS:
        raise Refusal(
            "InvalidParameterCombination",
            f"You have requested up to {points:,} datapoints, which exceeds the limit of {_MOST_POINTS:,}. You may "
            "reduce the datapoints requested by increasing Period, or decreasing the time range.",
        )


@rule("cloudwatch", "PutMetricAlarm")
def actions(given: Parameters, region: str) -> None:
    for name in ("AlarmActions", "OKActions", "InsufficientDataActions"):
        for arn in given.get(name) or []:
            if not str(arn).startswith("arn:"):
                raise Refusal("ValidationError", f"Invalid arn syntax: {arn}")
