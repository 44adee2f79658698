"""The actions, resources and condition keys for which an API call is checked, from the service authorization reference.

Known: S3 objects and buckets, SSM parameters, Secrets Manager secrets, Route 53 zones, log groups, metrics' namespaces,
DynamoDB tables, KMS keys, RDS instances, budgets' actions, IAM's roles and policies, and roles to assume.
`localcloud.ec2.authorization` has EC2's and Instance Connect's, `localcloud.cloudformation.authorization`
CloudFormation's, `localcloud.filesystems.authorization` FSx's. All other calls are checked for their action on an
unknown resource.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from moto.kms.models import kms_backends
from moto.rds.models import rds_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.identity.permissions import UNKNOWN_RESOURCE
from localcloud.protocol.calls import Call

Keys = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Check:
    """One thing that must be allowed for a call to pass."""

    action: str
    resource: str = UNKNOWN_RESOURCE
    keys: Keys = field(default_factory=dict)
    refusal: tuple[str, str] | None = None
    """Code and message, if the service has words of its own for a caller who lacks this permission."""
    late: bool = False
    """Whether the service asks for it only after it has accepted the call, which then fails in its own way."""


Checker = Callable[[Call], Iterable[Check]]


def checks(call: Call, others: Mapping[str, Checker]) -> list[Check]:
    """`others`: checkers of services that are not in this file."""
    if checker := others.get(call.service) or _SERVICES.get(call.service):
        return list(checker(call))
    action = _RENAMED.get((call.service, call.action), call.action)
    return [Check(f"{_PREFIXES.get(call.service, call.service)}:{action}")]


def _json(call: Call) -> dict[str, Any]:
    try:
        body = json.loads(call.body or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


# Service Authorization Reference, AWS Budget Service: operations without a permission of their own
_RENAMED = {
    ("budgets", "DescribeBudget"): "ViewBudget",
    ("budgets", "DescribeBudgets"): "ViewBudget",
    ("budgets", "CreateBudget"): "ModifyBudget",
    ("budgets", "UpdateBudget"): "ModifyBudget",
    ("budgets", "DeleteBudget"): "ModifyBudget",
}

# operations of S3's API with another name in IAM
_S3_ACTIONS = {
    "HeadObject": "GetObject",
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListBuckets": "ListAllMyBuckets",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "DeleteObjects": "DeleteObject",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
    "ListObjectVersions": "ListBucketVersions",
}

_NO_OBJECT_YET = ("CreateMultipartUpload", "UploadPart", "UploadPartCopy")
"""Calls that need s3:PutObject and create no object: S3 user guide, "Enforce conditional writes"."""


def _s3(call: Call) -> Iterator[Check]:
    bucket, _, key = call.path.lstrip("/").partition("/")
    action = _S3_ACTIONS.get(call.action, call.action)
    if not bucket:
        yield Check(f"s3:{action}", "*")
    elif key:
        arn = f"arn:aws:s3:::{bucket}/{key}"
        yield Check(f"s3:{action}", arn, _of_write(call) if action == "PutObject" else {})
        if call.action == "GetObject":
            yield from _decrypted(call.region, bucket, key, arn)
    else:
        keys: Keys = {"s3:prefix": (call.form["prefix"],)} if "prefix" in call.form else {}
        within = "/*" if call.action == "DeleteObjects" else ""
        yield Check(f"s3:{action}", f"arn:aws:s3:::{bucket}{within}", keys)


def _of_write(call: Call) -> Keys:
    """A condition key of a header is absent if the header is: Null finds that."""
    keys: Keys = {"s3:ObjectCreationOperation": (str(call.action not in _NO_OBJECT_YET).lower(),)}
    return keys | ({"s3:if-none-match": (call.if_none_match,)} if call.if_none_match else {})


def _decrypted(region: str, bucket: str, key: str, arn: str) -> Iterator[Check]:
    """S3 decrypts an object under a customer's key in its reader's name. The encryption context is the object's ARN, or
    the bucket's if the bucket has S3 Bucket Keys: S3 user guide, "Using server-side encryption with AWS KMS keys"."""
    held = s3_backends[ACCOUNT_ID]["aws"].buckets.get(bucket)
    found = held.keys.get(unquote(key)) if held else None
    encrypted_with = getattr(found, "kms_key_id", None)
    with_bucket_key = str(getattr(found, "bucket_key_enabled", "")).lower() == "true"
    context = f"arn:aws:s3:::{bucket}" if with_bucket_key else arn
    for check in of_key(region, encrypted_with, ("Decrypt",), via="s3"):
        yield replace(check, keys=check.keys | {"kms:EncryptionContext:aws:s3:arn": (context,)})


def _ssm(call: Call) -> Iterator[Check]:
    body = _json(call)
    names = body.get("Names") or [body.get("Name") or body.get("Path")]
    for name in names:
        if isinstance(name, str) and "Parameter" in call.action:
            bare = name.rpartition("parameter/")[2] if name.startswith("arn:") else name.partition(":")[0].lstrip("/")
            yield Check(f"ssm:{call.action}", f"arn:aws:ssm:{call.region}:{ACCOUNT_ID}:parameter/{bare}")
        else:
            yield Check(f"ssm:{call.action}")


def _secrets(call: Call) -> Iterator[Check]:
    wanted = _json(call).get("SecretId")
    named = wanted if isinstance(wanted, str) else UNKNOWN_RESOURCE
    secrets = secretsmanager_backends[ACCOUNT_ID][call.region].secrets
    found = secrets.get(named) or next((each for each in secrets.values() if each.arn == named), None)
    arn = found.arn if found else named
    if arn and not arn.startswith("arn:"):
        arn = f"arn:aws:secretsmanager:{call.region}:{ACCOUNT_ID}:secret:{arn}-??????"
    yield Check(f"secretsmanager:{call.action}", arn)
    if call.action == "GetSecretValue" and found:
        yield from of_key(call.region, getattr(found, "kms_key_id", None), ("Decrypt",), via="secretsmanager")


def of_key(region: str, key: str | None, actions: Iterable[str], *, via: str) -> Iterator[Check]:
    """The KMS calls that a service makes in its caller's name for a customer-managed key; AWS's own keys need none."""
    if not key or _is_awss(region, key):
        return
    arn = key if key.startswith("arn:") else f"arn:aws:kms:{region}:{ACCOUNT_ID}:key/{key}"
    for action in actions:
        keys: Keys = {"kms:ViaService": (f"{via}.{region}.amazonaws.com",), "kms:CallerAccount": (ACCOUNT_ID,)}
        if action == "CreateGrant":
            keys["kms:GrantIsForAWSResource"] = ("true",)
        yield Check(f"kms:{action}", arn, keys)


def _route53(call: Call) -> Iterator[Check]:
    parts = call.path.strip("/").split("/")  # 2013-04-01/hostedzone/Z123/rrset
    named = len(parts) > 2 and parts[1] == "hostedzone"
    zone = f"arn:aws:route53:::hostedzone/{parts[2]}" if named else UNKNOWN_RESOURCE
    yield Check(f"route53:{call.action}", zone, _record_keys(call.body.decode("utf-8", "replace")))


def _record_keys(body: str) -> Keys:
    """Condition keys of ChangeResourceRecordSets; names are in lower case and without the final dot."""
    found = {
        "Actions": re.findall(r"<Action>([^<]+)</Action>", body),
        "NormalizedRecordNames": [name.lower().rstrip(".") for name in re.findall(r"<Name>([^<]+)</Name>", body)],
        "RecordTypes": re.findall(r"<Type>([^<]+)</Type>", body),
    }
    return {f"route53:ChangeResourceRecordSets{key}": tuple(dict.fromkeys(v)) for key, v in found.items() if v}


def _logs(call: Call) -> Iterator[Check]:
    body = _json(call)
    group, stream = body.get("logGroupName"), body.get("logStreamName")
    arn = f"arn:aws:logs:{call.region}:{ACCOUNT_ID}:log-group:{group}:log-stream:{stream or ''}" if group else ""
    yield Check(f"logs:{call.action}", arn or UNKNOWN_RESOURCE)


def _metrics(call: Call) -> Iterator[Check]:
    """CloudWatch has no resources for metrics; the namespace is a condition."""
    namespace = call.form.get("Namespace") or _json(call).get("Namespace")
    keys: Keys = {"cloudwatch:namespace": (namespace,)} if isinstance(namespace, str) else {}
    yield Check(f"cloudwatch:{call.action}", "*", keys)


def _kms(call: Call) -> Iterator[Check]:
    wanted = str(_json(call).get("KeyId") or "")
    kind = wanted if wanted.startswith("alias/") else f"key/{wanted}"
    arn = wanted if wanted.startswith("arn:") else f"arn:aws:kms:{call.region}:{ACCOUNT_ID}:{kind}"
    yield Check(f"kms:{call.action}", arn if wanted else UNKNOWN_RESOURCE)


def _sts(call: Call) -> Iterator[Check]:
    keys: Keys = {"sts:RoleSessionName": (call.form["RoleSessionName"],)} if "RoleSessionName" in call.form else {}
    yield Check(f"sts:{call.action}", call.form.get("RoleArn", UNKNOWN_RESOURCE), keys)


def _dynamodb(call: Call) -> Iterator[Check]:
    table = _json(call).get("TableName")
    arn = f"arn:aws:dynamodb:{call.region}:{ACCOUNT_ID}:table/{table}" if isinstance(table, str) else UNKNOWN_RESOURCE
    yield Check(f"dynamodb:{call.action}", arn)


def _rds(call: Call) -> Iterator[Check]:
    """For an instance that the call names; its other resources (groups) are for calls that nobody here makes."""
    name = call.form.get("DBInstanceIdentifier")
    if not name or call.action.startswith("Describe"):
        yield Check(f"rds:{call.action}")
        return
    found = rds_backends[ACCOUNT_ID][call.region].databases.get(name)
    tags = {tag["Key"]: tag["Value"] for tag in (found.tags if found else ())}
    keys: Keys = {f"aws:ResourceTag/{key}": (value,) for key, value in tags.items()}
    yield Check(f"rds:{call.action}", f"arn:aws:rds:{call.region}:{ACCOUNT_ID}:db:{name}", keys)


def _iam(call: Call) -> Iterator[Check]:
    """A role by its name, with the policy that is attached to it or detached as a condition; else the policy."""
    policy, role = call.form.get("PolicyArn"), call.form.get("RoleName")
    if role:
        keys: Keys = {"iam:PolicyARN": (policy,)} if policy else {}
        yield Check(f"iam:{call.action}", f"arn:aws:iam::{ACCOUNT_ID}:role/{role}", keys)
    else:
        yield Check(f"iam:{call.action}", policy or UNKNOWN_RESOURCE)


def _budgets(call: Call) -> Iterator[Check]:
    body = _json(call)
    budget, action = body.get("BudgetName"), body.get("ActionId")
    named = f"budget/{budget}/action/{action}" if action else f"budget/{budget or '*'}"
    own = _RENAMED.get((call.service, call.action), call.action)
    yield Check(f"budgets:{own}", f"arn:aws:budgets::{ACCOUNT_ID}:{named}")


def _is_awss(region: str, key: str) -> bool:
    held = kms_backends[ACCOUNT_ID][region].keys.get(key.rpartition("/")[2])
    aliases = [key, *(held.aliases if held else ())]
    return any("alias/aws/" in alias for alias in aliases)


_SERVICES: dict[str, Checker] = {
    "s3": _s3,
    "ssm": _ssm,
    "secretsmanager": _secrets,
    "route53": _route53,
    "logs": _logs,
    "monitoring": _metrics,
    "dynamodb": _dynamodb,
    "kms": _kms,
    "sts": _sts,
    "rds": _rds,
    "iam": _iam,
    "budgets": _budgets,
}
# services whose IAM prefix differs from the name in signatures
_PREFIXES = {"email": "ses"}
