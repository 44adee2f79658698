"""Checks whether the customer's KMS key and the permissions boundary let the cluster work."""

from __future__ import annotations

import json
from typing import Any

from gpucluster.config.checks.online.account import Account, Answer
from gpucluster.config.checks.online.things import KEY
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig, Security
from gpucluster.config.regions import domain_of
from gpucluster.config.validators import Findings, Validators

validator = Validators("Key and boundary (asks AWS)", needs="aws")
METADATA = "https://docs.aws.amazon.com/kms/latest/APIReference/API_KeyMetadata.html"
LOGS = (
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html: key policy; "
    "https://github.com/aws/aws-cdk/blob/main/packages/aws-cdk-lib/region-info/lib/default.ts: logs.REGION.DOMAIN"
)

AWS_EBS_KEY = "alias/aws/ebs"
"""The response of GetEbsDefaultKmsKeyId for an unchanged default; otherwise it is a key's ARN."""


@validator(
    "kms-key-enabled",
    f"{METADATA}: KeyState; error DisabledException and KMSInvalidStateException; "
    "error Client.InvalidKMSKey.InvalidState of an instance",
)
def kms_key_enabled(security: Security, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The KMS key is enabled: otherwise instances with encrypted disks terminate as they start."""
    key = KEY.look_up(account, security.kms_key_arn)
    if key and key.get("KeyState", "Enabled") != "Enabled":
        name = key["KeyId"]
        hint = "cancel-key-deletion, then enable-key" if key["KeyState"] == "PendingDeletion" else "enable-key"
        yield Finding((*path, "kms_key_arn"), f"the key is {key['KeyState']}", f"aws kms {hint} --key-id {name}")


@validator(
    "kms-key-symmetric",
    "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html: no asymmetric keys",
)
def kms_key_symmetric(security: Security, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The KMS key is symmetric and for encryption: volumes and file systems need such a key."""
    key = KEY.look_up(account, security.kms_key_arn)
    spec = (key or {}).get("KeySpec") or (key or {}).get("CustomerMasterKeySpec") or "SYMMETRIC_DEFAULT"
    if key and (spec != "SYMMETRIC_DEFAULT" or key.get("KeyUsage", "ENCRYPT_DECRYPT") != "ENCRYPT_DECRYPT"):
        usage = key.get("KeyUsage", "ENCRYPT_DECRYPT")
        yield Finding(
            (*path, "kms_key_arn"), f"the key is {spec} for {usage}, not SYMMETRIC_DEFAULT for ENCRYPT_DECRYPT"
        )


@validator(
    "kms-key-is-yours",
    "https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html: AWS managed keys, one service each",
)
def kms_key_is_yours(security: Security, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The KMS key is customer-managed: an AWS managed key serves one service, and its policy cannot be changed."""
    key = KEY.look_up(account, security.kms_key_arn)
    if key and key.get("KeyManager") == "AWS":
        yield Finding((*path, "kms_key_arn"), "the key is managed by AWS for one service", "remove it, or create a key")


@validator("kms-key-admits-logs", LOGS)
def kms_key_admits_logs(security: Security, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The KMS key's policy lets CloudWatch Logs use it: otherwise no log group can be created with it."""
    domains = dict.fromkeys((domain_of(config.region), "amazonaws.com"))
    regional = [f"logs.{config.region}.{domain}" for domain in domains]
    yield from _not_admitted(security, path, account, *regional, *(f"logs.{domain}" for domain in domains))


@validator(
    "ebs-default-key",
    "https://github.com/aws/karpenter-provider-aws/issues/1407: Client.InternalError: Client error on launch; "
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetEbsDefaultKmsKeyId.html",
    level="warning",
)
def ebs_default_key(security: Security, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """Without kms_key_arn, the account's default EBS key is AWS's own: the head node's role can use no other.

    Templates then encrypt disks without naming a key. EC2 uses the account's default, and an instance launched by
    a role without rights on that key terminates as it starts. (A warning: the key's own policy may admit everybody in
    the account who goes through EC2.)
    """
    if security.kms_key_arn:
        return
    key = account.ask("ec2", "get_ebs_default_kms_key_id")["KmsKeyId"]
    if not key.endswith(AWS_EBS_KEY) and not _managed_by_aws(account, key):
        yield Finding(
            (*path, "kms_key_arn"),
            f"the account encrypts disks with {key}; no node will start unless its policy admits the head node's role",
            f"write security: {{kms_key_arn: <the key's ARN>}} (aws kms describe-key --key-id {key})",
        )


def _managed_by_aws(account: Account, key: str) -> bool:
    described: Answer = account.ask("kms", "describe_key", KeyId=key)["KeyMetadata"]
    return described.get("KeyManager") == "AWS"


@validator(
    "boundary-account",
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_managed-vs-inline.html: own account",
)
def boundary_account(security: Security, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The permissions boundary is a policy of AWS or of the account that the cluster is made in."""
    owner = (security.permissions_boundary_arn or ":::::").split(":")[4]
    if owner in ("", "aws"):
        return
    mine = account.ask("sts", "get_caller_identity")["Account"]
    if owner != mine:
        yield Finding((*path, "permissions_boundary_arn"), f"belongs to the account {owner}, yours is {mine}")


def _not_admitted(security: Security, path: Path, account: Account, *services: str) -> Findings:
    if not security.kms_key_arn or KEY.look_up(account, security.kms_key_arn) is None:
        return
    admitted = _admitted(account, security.kms_key_arn)
    if not admitted & {*services, "*"}:
        yield Finding(
            (*path, "kms_key_arn"),
            f"the key's policy does not name {services[0]}",
            "allow it kms:Encrypt*, kms:Decrypt*, kms:ReEncrypt*, kms:GenerateDataKey* and kms:Describe*",
        )


def admits_everybody(account: Account, key: str) -> bool:
    """Whether its policy has a statement for all principals, such as that of AWS's own key for EBS, `Allow access
    through EBS for all principals in the account`: people copy it to keys of their own, as Karpenter's guide says."""
    return "*" in _admitted(account, key)


def _admitted(account: Account, key: str) -> set[str]:
    answer = account.ask("kms", "get_key_policy", KeyId=key, PolicyName="default")
    return set(_services(json.loads(answer["Policy"])))


def _services(policy: dict[str, Any]) -> list[str]:
    """The services among the principals of statements that allow; `*` for everybody."""
    statements = policy.get("Statement", [])
    found: list[str] = []
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal", {})
        principal = {"AWS": principal} if isinstance(principal, str) else principal
        if statement.get("Effect") == "Allow":
            found += _listed(principal.get("Service", [])) + ["*"] * ("*" in _listed(principal.get("AWS", [])))
    return found


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
