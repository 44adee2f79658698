"""Combinations of parameters: exclusive ones, required ones, one of several; and limits that no model contains.

Each row is a sentence on its action's page in the API reference, also for EC2. `at` is the path in the request of the
structure that contains the parameters; `NetworkInterfaces[]` stands for each element of a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters

_COMBINATION, _VALUE, _MISSING = "InvalidParameterCombination", "InvalidParameterValue", "MissingParameter"
_LOGS = "InvalidParameterException"


@dataclass(frozen=True)
class Row:
    service: str
    actions: str
    names: tuple[str, ...]
    wrong: Callable[[Parameters], bool]
    code: str
    words: str
    at: str = ""


def _given(held: Parameters, names: str) -> list[str]:
    """0 counts as a value; an empty list and False do not."""
    return [name for name in names.split() if held.get(name) or (held.get(name) == 0 and held[name] is not False)]


def not_both(service: str, actions: str, names: str, code: str = _COMBINATION, at: str = "") -> Row:
    words = f"Only one of the parameters {', '.join(names.split())} can be specified."
    return Row(service, actions, (*names.split(),), lambda held: len(_given(held, names)) > 1, code, words, at)


def needs(service: str, actions: str, name: str, other: str, code: str = _COMBINATION, at: str = "") -> Row:
    """`name` requires at least one of `other`."""
    words = f"The parameter {name} requires the parameter {' or '.join(other.split())}."
    members = (name, *other.split())
    return Row(
        service, actions, members, lambda held: bool(_given(held, name)) and not _given(held, other), code, words, at
    )


def some(service: str, actions: str, names: str, code: str = _MISSING, at: str = "") -> Row:
    words = f"The request must contain the parameter {' or '.join(names.split())}"
    return Row(service, actions, (*names.split(),), lambda held: not _given(held, names), code, words, at)


def among(service: str, actions: str, name: str, allowed: Any, code: str = _VALUE, at: str = "") -> Row:
    words = f"{name} must be one of {', '.join(map(str, allowed)) if len(allowed) < 20 else allowed}."
    return Row(
        service,
        actions,
        (name,),
        lambda held: held.get(name) is not None and held[name] not in allowed,
        code,
        words,
        at,
    )


def at_most(service: str, actions: str, name: str, most: int, code: str = _VALUE, at: str = "") -> Row:
    words = f"{name} can have at most {most} elements."
    return Row(service, actions, (name,), lambda held: len(held.get(name) or []) > most, code, words, at)


def form(service: str, actions: str, name: str, pattern: str, code: str = _VALUE, at: str = "") -> Row:
    fits, words = re.compile(pattern).fullmatch, f"{name} is not valid: it must match {pattern}."
    return Row(
        service, actions, (name,), lambda held: bool(held.get(name)) and not fits(str(held[name])), code, words, at
    )


def _is_one_of_many(held: Parameters) -> bool:
    return bool(not held.get("SetIdentifier") and any(held.get(name) is not None for name in _POLICIES.split()))


_NICS, _PLACE, _RECORD = "NetworkInterfaces[]", "Placement", "ChangeBatch.Changes[].ResourceRecordSet"
_POLICIES = "Weight Region GeoLocation Failover MultiValueAnswer CidrRoutingConfig GeoProximityLocation"
_DATABASES = "CreateDBInstance ModifyDBInstance"
# https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.SSL.html
_AUTHORITIES = ("rds-ca-2019", "rds-ca-rsa2048-g1", "rds-ca-rsa4096-g1", "rds-ca-ecc384-g1")
_CURVES = "ECC_NIST_P256 ECC_NIST_P384 ECC_NIST_P521 ECC_SECG_P256K1"
_POLICY, _KEPT = "CreateLifecyclePolicy UpdateLifecyclePolicy", "PolicyDetails.Schedules[].RetainRule"
_NAME = r"[a-zA-Z](?:-?[a-zA-Z0-9])*"

ROWS: tuple[Row, ...] = (
    not_both("ec2", "RunInstances", "Ipv6Addresses Ipv6AddressCount"),
    not_both("ec2", "RunInstances", "Ipv6Addresses Ipv6AddressCount", at=_NICS),
    not_both("ec2", "RunInstances", "Ipv4Prefixes Ipv4PrefixCount", at=_NICS),
    not_both("ec2", "RunInstances", "Ipv6Prefixes Ipv6PrefixCount", at=_NICS),
    not_both("ec2", "RunInstances", "AvailabilityZone AvailabilityZoneId", at=_PLACE),
    not_both("ec2", "RunInstances", "Name Arn", at="IamInstanceProfile"),
    not_both("ec2", "RunInstances", "NetworkInterfaces PrivateIpAddress"),
    among("ec2", "RunInstances", "VolumeInitializationRate", range(100, 301), at="BlockDeviceMappings[].Ebs"),
    among("ec2", "CreateVolume", "VolumeInitializationRate", range(100, 301)),
    among("ec2", "RunInstances", "CpuCredits", ("standard", "unlimited"), at="CreditSpecification"),
    among("ec2", "CreateVpc", "InstanceTenancy", ("default", "dedicated")),
    not_both("ec2", "RunInstances", "NetworkInterfaces Ipv6AddressCount"),
    not_both("ec2", "RunInstances", "NetworkInterfaceId DeleteOnTermination", at=_NICS),
    not_both("ec2", "CreateSubnet CreateVolume CreateCapacityReservation", "AvailabilityZone AvailabilityZoneId"),
    not_both("ec2", "CreateFlowLogs", "LogGroupName LogDestination", "InvalidParameter"),
    not_both("ec2", "CreateVpc", "CidrBlock Ipv4IpamPoolId"),
    not_both("ec2", "AuthorizeSecurityGroupIngress", "CidrIp SourceSecurityGroupName"),
    needs("ec2", "CreateNatGateway", "SecondaryAllocationIds", "AllocationId"),
    some("ec2", "CreatePlacementGroup", "GroupName"),
    some("ec2", "AuthorizeSecurityGroupIngress", "GroupId GroupName"),
    at_most("ec2", "CreateTags DeleteTags", "Resources", 1000),
    at_most("ec2", "TerminateInstances", "InstanceIds", 1000),
    not_both("ssm", "PutParameter", "Tags Overwrite", "ValidationException"),
    among("ssm", "PutParameter", "DataType", ("text", "aws:ec2:image", "aws:ssm:integration"), "ValidationException"),
    needs("route53", "ChangeResourceRecordSets", "SetIdentifier", _POLICIES, "InvalidInput", _RECORD),
    Row("route53", "ChangeResourceRecordSets", ("SetIdentifier",), _is_one_of_many, "InvalidInput",
        "Invalid request: Missing field 'SetIdentifier' in Change", _RECORD),
    not_both("route53", "ChangeResourceRecordSets", _POLICIES, "InvalidInput", _RECORD),
    needs("route53", "ListResourceRecordSets", "StartRecordType", "StartRecordName", "InvalidInput"),
    needs("route53", "ListResourceRecordSets", "StartRecordIdentifier", "StartRecordType", "InvalidInput"),
    at_most("efs", "PutLifecycleConfiguration", "LifecyclePolicies", 3, "BadRequest"),
    not_both("efs", "PutLifecycleConfiguration", "TransitionToIA TransitionToPrimaryStorageClass TransitionToArchive",
             "BadRequest", "LifecyclePolicies[]"),
    not_both("rds", _DATABASES, "MasterUserPassword ManageMasterUserPassword"),
    needs("rds", _DATABASES, "MasterUserSecretKmsKeyId", "ManageMasterUserPassword"),
    needs("rds", "CreateDBInstance", "KmsKeyId", "StorageEncrypted"),
    Row("rds", _DATABASES, ("MonitoringInterval", "MonitoringRoleArn"),
        lambda held: bool(held.get("MonitoringInterval")) and not held.get("MonitoringRoleArn"), _COMBINATION,
        "A MonitoringRoleARN value is required if you specify a MonitoringInterval value other than 0."),
    among("rds", _DATABASES, "MonitoringInterval", (0, 1, 5, 10, 15, 30, 60)),
    among("rds", _DATABASES, "NetworkType", ("IPV4", "DUAL"), "NetworkTypeNotSupported"),
    among("rds", _DATABASES, "CACertificateIdentifier", _AUTHORITIES, "CertificateNotFound"),
    at_most("rds", "ModifyDBParameterGroup", "Parameters", 20),
    form("rds", "CreateDBParameterGroup", "DBParameterGroupName", _NAME),
    form("rds", "CreateDBSubnetGroup", "DBSubnetGroupName", r"(?!(?i:default)$)[a-zA-Z0-9._ -]{1,255}"),
    form("rds", "DeleteDBInstance", "FinalDBSnapshotIdentifier", _NAME),
    not_both("logs", "DescribeLogGroups", "logGroupNamePrefix logGroupNamePattern", _LOGS),
    not_both("logs", "GetLogEvents DescribeLogStreams", "logGroupName logGroupIdentifier", _LOGS),
    some("logs", "GetLogEvents DescribeLogStreams", "logGroupName logGroupIdentifier", _LOGS),
    form("logs", "CreateLogGroup", "logGroupName", r"(?!aws/).*", _LOGS),
    at_most("cloudwatch", "PutMetricData", "MetricData", 1000),
    at_most("cloudwatch", "PutMetricData", "Values", 150, at="MetricData[]"),
    form("cloudwatch", "PutMetricData", "Name", r"(?!:)(?=.*\S)[ -~]*", at="MetricData[].Dimensions[]"),
    some("cloudwatch", "PutMetricData", "MetricData EntityMetricData"),
    not_both("cloudwatch", "PutMetricAlarm", "Threshold ThresholdMetricId", "ValidationError"),
    needs("cloudwatch", "PutMetricAlarm", "EvaluationInterval", "EvaluationCriteria", "ValidationError"),
    not_both("cloudwatch", "DescribeAlarms", "AlarmNames AlarmNamePrefix", "ValidationError"),
    not_both("cloudwatch", "DescribeAlarms", "ChildrenOfAlarmName ParentsOfAlarmName", "ValidationError"),
    form("cloudwatch", "PutMetricAlarm", "AlarmName", r"[^\x00-\x1f\x7f]*", "ValidationError"),
    not_both("dlm", _POLICY, "Count Interval", "InvalidRequestException", _KEPT),
    some("dlm", _POLICY, "Count Interval", "InvalidRequestException", _KEPT),
    needs("dlm", _POLICY, "Interval", "IntervalUnit", "InvalidRequestException", _KEPT),
    form("cloudwatch", "PutMetricAlarm", "Name", r"(?!:)(?=.*\S)[ -~]*", "ValidationError", "Dimensions[]"),
    form("cloudwatch", "PutMetricAlarm", "ExtendedStatistic",
         r"p(\d{1,2}(\.\d{1,10})?|100)|(?i:iqm)|(?i:tm|wm|tc|ts)\d{1,2}(\.\d{1,10})?|(?i:tm|wm|tc|ts|pr)\(.*:.*\)",
         "ValidationError"),
    among("cloudwatch", "PutMetricAlarm", "EvaluateLowSampleCountPercentile", ("evaluate", "ignore"),
          "ValidationError"),
    not_both("sns", "Publish", "TopicArn TargetArn PhoneNumber", "InvalidParameter"),
    not_both("budgets", "CreateBudget", "BudgetLimit PlannedBudgetLimits AutoAdjustData", "InvalidParameterException",
             "Budget"),
    not_both("budgets", "CreateBudget", "CostFilters FilterExpression", "InvalidParameterException", "Budget"),
    not_both("kms", "CreateKey", "KeySpec CustomerMasterKeySpec", "ValidationException"),
    Row("kms", "CreateKey", ("KeySpec", "KeyUsage"),
        lambda held: str(held.get("KeySpec")) in _CURVES.split() and not held.get("KeyUsage"), "ValidationException",
        "You must specify a KeyUsage value for an asymmetric KMS key."),
    among("kms", "PutKeyPolicy GetKeyPolicy", "PolicyName", ("default",), "NotFoundException"),
)  # fmt: skip

_BY_ACTION: dict[tuple[str, str], list[Row]] = {}
for _row in ROWS:
    for _action in _row.actions.split():
        _BY_ACTION.setdefault((_row.service, _action), []).append(_row)


def check(service: str, action: str, given: Parameters) -> None:
    for row in _BY_ACTION.get((service, action), ()):
        for held in _structures(given, row.at.split(".") if row.at else []):
            if row.wrong(held):
                raise Refusal(row.code, row.words)


def _structures(held: Any, path: list[str]) -> Iterator[Parameters]:
    if not path:
        yield held
        return
    inner = held.get(path[0].removesuffix("[]"))
    for each in inner if isinstance(inner, list) else [inner]:
        if isinstance(each, dict):
            yield from _structures(each, path[1:])
