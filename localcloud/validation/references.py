"""Parameters that must name an existing resource, by service, with the error for a missing one.

The error codes are those of the operations in botocore's models. EC2's are in localcloud/ec2/validation/ids.py. The
actions that create a resource are in `makers`; actions that succeed for a missing resource are in `FORGIVING`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from moto.budgets.models import budgets_backends
from moto.ec2.models import ec2_backends
from moto.efs.models import efs_backends
from moto.elbv2.models import elbv2_backends
from moto.fsx.models import fsx_backends
from moto.logs.models import logs_backends
from moto.rds.models import rds_backends
from moto.sns.models import sns_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.identity import roles
from localcloud.validation import stores
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters

Exists = Callable[[str, str], bool]
"""Takes a name and a region."""


@dataclass(frozen=True)
class Kind:
    exists: Exists
    code: str
    message: str
    status: int = 400
    makers: tuple[str, ...] = ()
    """Actions that create a resource with this name."""


def _kind(backends: Any, attribute: str) -> Exists:
    return lambda name, region: name in getattr(backends[ACCOUNT_ID][region], attribute)


def _of(backends: Any, attribute: str, code: str, message: str, status: int = 400, *makers: str) -> Kind:
    return Kind(_kind(backends, attribute), code, message, status, makers)


def _log_group(name: str, region: str) -> bool:
    """`name`: a name or an ARN. Log groups of other accounts count as existing."""
    arn, _, rest = name.partition(":log-group:")
    return name_of(rest or arn) in logs_backends[ACCOUNT_ID][region].groups or bool(rest and ACCOUNT_ID not in arn)


def name_of(group: str) -> str:
    return group.removesuffix(":*")


def _key(name: str, region: str) -> bool:
    away = name.startswith("arn:") and f":{region}:{ACCOUNT_ID}:" not in name
    return away or "alias/aws/" in name or stores.find_key(name, region) is not None


def _tagged_by_fsx(arn: str, region: str) -> bool:
    """Looks up the file system of a file system's, an association's or a task's ARN."""
    parts = arn.rpartition(":")[2].split("/")
    return (
        parts[0] not in ("file-system", "association", "task")
        or parts[1] in fsx_backends[ACCOUNT_ID][region].file_systems
    )


def _listed(prefix: str, attribute: str) -> Exists:
    """RDS's defaults, whose names begin with `prefix`, always exist."""
    exists = _kind(rds_backends, attribute)
    return lambda name, region: name.startswith(prefix) or exists(name, region)


def _group(name: str, region: str) -> bool:
    return ec2_backends[ACCOUNT_ID][region].get_security_group_from_id(name) is not None


_PARAMETER_GROUP = Kind(
    _listed("default", "db_parameter_groups"), "DBParameterGroupNotFound", "DBParameterGroup not found: {}", 404,
    ("CreateDBParameterGroup", "CopyDBParameterGroup"),
)  # fmt: skip
_MOUNTED = _of(efs_backends, "file_systems_by_id", "FileSystemNotFound", "File system '{}' does not exist.", 404)
_BALANCER = _of(elbv2_backends, "load_balancers", "LoadBalancerNotFound", "One or more load balancers not found")

KINDS: dict[str, dict[str, Kind]] = {
    "iam": {
        "PolicyArn": Kind(
            lambda arn, region: arn in roles.iam().managed_policies, "NoSuchEntity", "Policy {} was not found.", 404
        ),
        "RoleName": Kind(
            lambda name, region: any(role.name.lower() == name.lower() for role in roles.iam().roles.values()),
            "NoSuchEntity", "The role with name {} cannot be found.", 404, ("CreateRole",),
        ),
    },
    "kms": {
        "KeyId": Kind(_key, "NotFoundException", "Key '{}' does not exist"),
        "TargetKeyId": Kind(_key, "NotFoundException", "Key '{}' does not exist"),
    },
    "logs": {
        "logGroupName": Kind(
            _log_group, "ResourceNotFoundException", "The specified log group does not exist.", 400, ("CreateLogGroup",)
        ),
        "logGroupIdentifier": Kind(_log_group, "ResourceNotFoundException", "The specified log group does not exist."),
        "resourceArn": Kind(
            lambda arn, region: ":log-group:" not in arn or _log_group(arn, region), "ResourceNotFoundException",
            "The specified resource does not exist.",
        ),
    },
    "sns": {"TopicArn": _of(sns_backends, "topics", "NotFound", "Topic does not exist", 404)},
    "budgets": {
        "BudgetName": Kind(
            lambda name, region: name in budgets_backends[ACCOUNT_ID]["aws"].budgets[ACCOUNT_ID], "NotFoundException",
            "Unable to get budget: {} - the budget doesn't exist.",
        ),
    },
    "rds": {
        "DBParameterGroupName": _PARAMETER_GROUP,
        "VpcSecurityGroupIds": Kind(_group, "InvalidParameterValue", "Invalid security group , groupId= {}."),
        "KmsKeyId": Kind(_key, "KMSKeyNotAccessibleFault", "The specified KMS key [{}] does not exist."),
    },
    "fsx": {"ResourceARN": Kind(_tagged_by_fsx, "ResourceNotFound", "The resource '{}' does not exist.")},
    "efs": {
        "FileSystemId": _MOUNTED,
        "KmsKeyId": Kind(_key, "BadRequest", "The KMS key '{}' does not exist."),
    },
    "elbv2": {
        "LoadBalancerArn": _BALANCER,
        "TargetGroupArn": _of(elbv2_backends, "target_groups", "TargetGroupNotFound", "'{}' not found"),
        "SecurityGroups": Kind(_group, "InvalidSecurityGroup", "The security group '{}' does not exist"),
    },
}  # fmt: skip

# AWS reports success for these, or lists the missing resources.
FORGIVING = {
    ("sns", "DeleteTopic"), ("elbv2", "DeleteLoadBalancer"), ("elbv2", "DeleteTargetGroup"),
    ("budgets", "CreateBudget"),
}  # fmt: skip


def check(service: str, action: str, given: Parameters, region: str) -> None:
    if (service, action) in FORGIVING:
        return
    for name, kind in KINDS.get(service, {}).items():
        if action in kind.makers:
            continue
        for wanted in _values(given.get(name)):
            if not kind.exists(wanted, region):
                raise Refusal(kind.code, kind.message.format(wanted), kind.status)


def _values(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str) and each:
            yield each
