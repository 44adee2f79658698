"""Rules for Parameter Store, Secrets Manager and KMS.

https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-parameter-name-constraints.html,
.../parameter-store-advanced-parameters.html, https://docs.aws.amazon.com/kms/latest/APIReference/
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from moto.kms.models import kms_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.ssm.models import ssm_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.validation import documents, principals
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters, rule

_STANDARD, _ADVANCED = 4096, 8192
_DEEPEST = 15
_NAME = re.compile(r"[a-zA-Z0-9_.\-/]+")
_SECRET_NAME = re.compile(r"[a-zA-Z0-9/_+=.@!-]{1,512}")
_LEAST_DAYS, _MOST_DAYS = 7, 30
_POLICY_BYTES = 32768
_OWN_KEYS = "alias/aws/"


def _refused(message: str) -> Refusal:
    return Refusal("ValidationException", message)


@rule("ssm", "PutParameter")
def parameter_name(given: Parameters, region: str) -> None:
    name = str(given["Name"])
    if not _NAME.fullmatch(name):
        raise _refused(
            'Parameter name: can\'t be prefixed with "ssm" (case-insensitive). If formed as a path, it can consist of '
            "sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, numbers and the "
            "following 3 symbols .-_"
        )
    if "//" in name or name.endswith("/"):
        raise _refused("Parameter name must not end with slash, and each of its sub-paths must have a name.")
    if "/" in name and not name.startswith("/"):
        raise _refused("Parameter name must be a fully qualified name.")
    if name.count("/") > _DEEPEST:
        raise Refusal(
            "HierarchyLevelLimitExceededException",
            f"A hierarchy can have a maximum of {_DEEPEST} levels, got {name.count('/')}.",
        )


@rule("ssm", "PutParameter")
def parameter_value(given: Parameters, region: str) -> None:
    held = _versions(str(given["Name"]), region)
    before = str(getattr(held[-1], "tier", None) or "Standard") if held else "Standard"
    tier, size = given.get("Tier") or before, len(str(given["Value"]).encode())
    if held and given.get("Overwrite") and before == "Advanced" and tier == "Standard":
        raise _refused(
            "This parameter uses the advanced-parameter tier. You can't downgrade a parameter from the "
            "advanced-parameter tier to the standard-parameter tier."
        )
    if tier == "Standard" and size > _STANDARD:
        raise _refused(
            f"Standard tier parameters support a maximum parameter value of {_STANDARD} characters. To create a larger "
            "parameter value, upgrade the parameter to use the advanced-parameter tier."
        )
    if size > _ADVANCED:
        raise _refused(f"Advanced tier parameters support a maximum parameter value of {_ADVANCED} characters.")
    if given.get("Policies") and tier == "Standard":
        raise _refused("Parameter policies are supported for advanced-tier parameters only.")
    _check_pattern(given)
    if given.get("Type") == "SecureString" and given.get("KeyId"):
        known_key(str(given["KeyId"]), region, "InvalidKeyId")


def _versions(name: str, region: str) -> list[Any]:
    """A parameter's versions. moto keeps parameters of the first level without their slash."""
    parameters = ssm_backends[ACCOUNT_ID][region]._parameters
    return list(parameters.get(name) or parameters.get(name.lstrip("/")) or [])


def _check_pattern(given: Parameters) -> None:
    pattern = given.get("AllowedPattern")
    if not pattern:
        return
    try:
        fits = re.search(str(pattern), str(given["Value"]))
    except re.error:
        raise Refusal("InvalidAllowedPatternException", f"The regular expression {pattern} is not valid.") from None
    if not fits:
        raise Refusal(
            "ParameterPatternMismatchException",
            f"Parameter value, cannot be validated against allowedPattern: {pattern}",
        )


@rule("ssm", "GetParametersByPath")
def path(given: Parameters, region: str) -> None:
    if not str(given["Path"]).startswith("/"):
        raise _refused("The parameter doesn't meet the parameter name requirements. It must begin with a slash.")


@rule("secretsmanager", "CreateSecret")
def secret_name(given: Parameters, region: str) -> None:
    held = secretsmanager_backends[ACCOUNT_ID][region].secrets.get(str(given["Name"]))
    if held is not None and held.is_deleted():
        raise Refusal(  # hashicorp/terraform-provider-aws#5127
            "InvalidRequestException",
            "You can't create this secret because a secret with this name is already scheduled for deletion.",
        )
    if not _SECRET_NAME.fullmatch(str(given["Name"])):
        raise _refused(
            "Invalid name. Must be a valid name containing alphanumeric characters, or any of the following: -/_+=.@!"
        )


@rule("secretsmanager", "CreateSecret", "UpdateSecret")
def secret_value(given: Parameters, region: str) -> None:
    if given.get("SecretString") is not None and given.get("SecretBinary") is not None:
        raise Refusal(
            "InvalidParameterException", "You can't specify both a binary secret value and a string secret value."
        )
    if given.get("KmsKeyId"):
        known_key(str(given["KmsKeyId"]), region, "InvalidParameterException")
        key = find_key(str(given["KmsKeyId"]), region)
        if key is not None and key.key_state != "Enabled":
            raise Refusal("EncryptionFailure", f"The KMS key {key.arn} is {key.key_state}.")


@rule("secretsmanager", "UpdateSecret", "GetSecretValue", "TagResource")
def deleted_secret(given: Parameters, region: str) -> None:
    wanted = str(given["SecretId"])
    for secret in secretsmanager_backends[ACCOUNT_ID][region].secrets.values():
        if wanted in (secret.name, secret.arn) and secret.is_deleted():
            raise Refusal(  # floci-io/floci#2514
                "InvalidRequestException",
                "You can't perform this operation on the secret because it was marked for deletion.",
            )


@rule("secretsmanager", "DeleteSecret")
def recovery(given: Parameters, region: str) -> None:
    days = given.get("RecoveryWindowInDays")
    if days is not None and given.get("ForceDeleteWithoutRecovery"):
        raise Refusal(
            "InvalidParameterException",
            "You can't use ForceDeleteWithoutRecovery in conjunction with RecoveryWindowInDays.",
        )
    if days is not None and not _LEAST_DAYS <= int(days) <= _MOST_DAYS:
        raise Refusal(
            "InvalidParameterException", "The RecoveryWindowInDays value must be between 7 and 30 days (inclusive)."
        )


def find_key(wanted: str, region: str) -> Any:
    """`wanted`: a key's id, ARN or alias."""
    backend = kms_backends[ACCOUNT_ID][region]
    if "alias/" in wanted:
        name = "alias/" + wanted.partition("alias/")[2]
        return next((key for key in backend.keys.values() if name in key.aliases), None)
    return backend.keys.get(wanted.rpartition("/")[2])


def known_key(wanted: str, region: str, code: str) -> None:
    if _OWN_KEYS not in wanted and find_key(wanted, region) is None:
        raise Refusal(code, f"The KMS key {wanted} does not exist, or may not be used.")


@rule("kms", "ScheduleKeyDeletion")
def pending_window(given: Parameters, region: str) -> None:
    days = given.get("PendingWindowInDays")
    if days is not None and not _LEAST_DAYS <= int(days) <= _MOST_DAYS:
        raise _refused(f"PendingWindowInDays must be between {_LEAST_DAYS} and {_MOST_DAYS}, got {days}")


@rule("kms", "CreateAlias", "UpdateAlias")
def alias(given: Parameters, region: str) -> None:
    name = str(given["AliasName"])
    if not name.startswith("alias/"):
        raise _refused("Invalid identifier: the name of an alias must begin with alias/")
    if name.startswith(_OWN_KEYS):
        raise Refusal("NotAuthorizedException", "")
    key = find_key(str(given["TargetKeyId"]), region)
    if key is not None and key.key_state == "PendingDeletion":
        raise Refusal("KMSInvalidStateException", f"{key.arn} is pending deletion.")


@rule("kms", "CreateKey", "PutKeyPolicy")
def key_policy(given: Parameters, region: str) -> None:
    if not given.get("Policy"):
        return
    try:
        found = documents.check(str(given["Policy"]), resource_policy=True)
    except ValueError as error:
        raise Refusal("MalformedPolicyDocumentException", str(error)) from None
    try:
        principals.check(found)
    except ValueError:  # aws-samples/siem-on-amazon-opensearch-service#32
        raise Refusal("MalformedPolicyDocumentException",
                      "Policy contains a statement with one or more invalid principals.") from None  # fmt: skip
    if len(str(given["Policy"]).encode()) > _POLICY_BYTES:
        raise Refusal("LimitExceededException", f"A key policy can have at most {_POLICY_BYTES} bytes.")
    if not given.get("BypassPolicyLockoutSafetyCheck") and not any(map(_lets_change, found)):
        raise Refusal("MalformedPolicyDocumentException",
                      "The new key policy will not allow you to update the key policy in the future.")  # fmt: skip


def _lets_change(statement: dict[str, Any]) -> bool:
    """Whether somebody of this account may change the policy; the caller's own permissions are not evaluated here."""
    patterns = map(str, documents.listed(statement.get("Action")))
    allowed = "NotAction" in statement or any(fnmatchcase("kms:putkeypolicy", each.lower()) for each in patterns)
    named = statement.get("Principal", "*")
    who = documents.listed(named.get("AWS")) if isinstance(named, dict) else [named]
    return statement["Effect"] == "Allow" and allowed and any(str(n) == "*" or ACCOUNT_ID in str(n) for n in who)


# https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html
_WHILE_DISABLED = ("Encrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext", "Sign", "Verify")
_NOT_WHILE_PENDING = (
    *_WHILE_DISABLED, "CreateGrant", "DisableKey", "EnableKey", "EnableKeyRotation", "DisableKeyRotation",
    "ScheduleKeyDeletion", "UpdateKeyDescription", "TagResource", "UntagResource",
)  # fmt: skip


@rule("kms", *_WHILE_DISABLED)
def usable(given: Parameters, region: str) -> None:
    key = find_key(str(given["KeyId"]), region)
    if key is not None and key.key_state == "Disabled":
        raise Refusal("DisabledException", f"{key.arn} is disabled.")


@rule("kms", *_NOT_WHILE_PENDING)
def not_pending(given: Parameters, region: str) -> None:
    key = find_key(str(given["KeyId"]), region)
    if key is not None and key.key_state == "PendingDeletion":
        raise Refusal("KMSInvalidStateException", f"{key.arn} is pending deletion.")


@rule("kms", "EnableKeyRotation")
def rotates(given: Parameters, region: str) -> None:
    key = find_key(str(given["KeyId"]), region)
    if key is not None and key.key_spec != "SYMMETRIC_DEFAULT":
        raise Refusal("UnsupportedOperationException", f"{key.arn} is not a symmetric encryption key.")


@rule("kms", "CancelKeyDeletion")
def pending(given: Parameters, region: str) -> None:
    key = find_key(str(given["KeyId"]), region)
    if key is not None and key.key_state != "PendingDeletion":
        raise Refusal("KMSInvalidStateException", f"{key.arn} is not pending deletion.")
