"""Rules for IAM and STS: documents, sizes, names in use, and deletion of entities in use.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html and the API reference.
"""

from __future__ import annotations

import json
import re
from typing import Any

from localcloud.clients import ACCOUNT_ID
from localcloud.identity import roles
from localcloud.validation import documents, principals
from localcloud.validation.refusal import Refusal
from localcloud.validation.rules import Parameters, rule

_TRUST_SIZE, _MANAGED_SIZE = 2048, 6144
_INLINE_SIZES = {"PutRolePolicy": 10240, "PutUserPolicy": 2048}
_OF_ROLES = (
    "UpdateRole", "UpdateAssumeRolePolicy", "DeleteRole", "PutRolePolicy", "DeleteRolePolicy",
    "AttachRolePolicy", "DetachRolePolicy", "PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary",
    "AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile",
)  # fmt: skip
_MOST_ATTACHED, _MOST_VERSIONS, _MOST_TAGS = 10, 5, 50


def _malformed(error: ValueError) -> Refusal:
    return Refusal("MalformedPolicyDocument", str(error))


def _exceeded(quota: str, value: int) -> Refusal:
    return Refusal("LimitExceeded", f"Cannot exceed quota for {quota}: {value}", 409)


def _conflict(why: str) -> Refusal:
    return Refusal("DeleteConflict", f"Cannot delete entity, must {why} first.", 409)


def _named(store: dict[str, Any], name: str) -> Any:
    """IAM compares names without regard to case."""
    return next((each for each in store.values() if each.name.lower() == name.lower()), None)


@rule("iam", "CreateRole", "UpdateAssumeRolePolicy")
def trust(given: Parameters, region: str) -> None:
    text = str(given.get("AssumeRolePolicyDocument") or given.get("PolicyDocument"))
    try:
        found = documents.check(text, resource_policy=True)
        documents.check_sids(found)
        principals.check(found)
    except ValueError as error:
        raise _malformed(error) from None
    for statement in found:
        if "Resource" in statement or "NotResource" in statement:
            raise Refusal("MalformedPolicyDocument", "Has prohibited field Resource")
        if not all(str(action).startswith("sts:") for action in documents.listed(statement.get("Action"))):
            raise Refusal("MalformedPolicyDocument", "AssumeRole policy may only specify STS AssumeRole actions.")
    if documents.size(text) > _TRUST_SIZE:
        raise _exceeded("ACLSizePerRole", _TRUST_SIZE)


@rule("iam", "CreateRole")
def role_name(given: Parameters, region: str) -> None:
    name = given["RoleName"]
    if _named(roles.iam().roles, name):
        raise Refusal("EntityAlreadyExists", f"Role with name {name} already exists.", 409)
    boundary = given.get("PermissionsBoundary")
    if boundary and boundary not in roles.iam().managed_policies:
        raise Refusal("NoSuchEntity", f"Scope ARN: {boundary} does not exist or is not attachable.", 404)


@rule("iam", "CreateInstanceProfile")
def profile_name(given: Parameters, region: str) -> None:
    name = given["InstanceProfileName"]
    if _named(roles.iam().instance_profiles, name):
        raise Refusal("EntityAlreadyExists", f"Instance Profile {name} already exists.", 409)


@rule("iam", "PutRolePolicy", "PutUserPolicy", "CreatePolicy", "CreatePolicyVersion")
def identity_policy(given: Parameters, region: str) -> None:
    try:
        documents.check_sids(documents.check(str(given["PolicyDocument"]), resource_policy=False))
    except ValueError as error:
        raise _malformed(error) from None


@rule("iam", "PutRolePolicy")
def inline_size(given: Parameters, region: str) -> None:
    role = _named(roles.iam().roles, given["RoleName"])
    others = [text for name, text in (role.policies if role else {}).items() if name != given["PolicyName"]]
    most = _INLINE_SIZES["PutRolePolicy"]
    if sum(documents.size(str(text)) for text in [*others, given["PolicyDocument"]]) > most:
        raise Refusal(
            "LimitExceeded", f"Maximum policy size of {most} bytes exceeded for role {given['RoleName']}", 409
        )


@rule("iam", "CreatePolicy", "CreatePolicyVersion")
def managed_size(given: Parameters, region: str) -> None:
    if documents.size(str(given["PolicyDocument"])) > _MANAGED_SIZE:
        raise _exceeded("PolicySize", _MANAGED_SIZE)


@rule("iam", "CreatePolicyVersion")
def versions(given: Parameters, region: str) -> None:
    policy = roles.iam().managed_policies.get(given["PolicyArn"])
    if policy and len(policy.versions) >= _MOST_VERSIONS:
        raise Refusal(
            "LimitExceeded",
            "A managed policy can have up to 5 versions. Before you create a new version, you must delete an existing "
            "version.",
            409,
        )


@rule("iam", "AttachRolePolicy")
def attached(given: Parameters, region: str) -> None:
    role = _named(roles.iam().roles, given["RoleName"])
    if role and given["PolicyArn"] not in role.managed_policies and len(role.managed_policies) >= _MOST_ATTACHED:
        raise _exceeded("PoliciesPerRole", _MOST_ATTACHED)


@rule("iam", "DeletePolicy")
def delete_policy(given: Parameters, region: str) -> None:
    policy = roles.iam().managed_policies.get(given["PolicyArn"])
    if policy is None:
        return
    holders: list[Any] = [*roles.iam().roles.values(), *roles.iam().users.values(), *roles.iam().groups.values()]
    if any(policy.arn in holder.managed_policies for holder in holders):
        raise Refusal("DeleteConflict", "Cannot delete a policy attached to entities.", 409)
    if len(policy.versions) > 1:
        raise Refusal("DeleteConflict", "This policy has more than one version. Before you delete a policy, you must "
                      "delete the policy's versions. The default version is deleted with the policy.", 409)  # fmt: skip


@rule("iam", "DeletePolicyVersion")
def delete_version(given: Parameters, region: str) -> None:
    policy = roles.iam().managed_policies.get(given["PolicyArn"])
    if policy and policy.default_version_id == given["VersionId"]:
        raise Refusal("DeleteConflict", "Cannot delete the default version of a policy.", 409)


@rule("iam", "RemoveRoleFromInstanceProfile")
def remove_role(given: Parameters, region: str) -> None:
    profile, name = _named(roles.iam().instance_profiles, given["InstanceProfileName"]), given["RoleName"]
    if profile and name not in [role.name for role in profile.roles]:
        raise Refusal("NoSuchEntity", f"Role {name} is not in instance profile {profile.name}.", 404)


@rule("iam", *_OF_ROLES)
def protected(given: Parameters, region: str) -> None:
    role = _named(roles.iam().roles, given["RoleName"])
    if role and str(role.path).startswith("/aws-service-role/"):
        raise Refusal("UnmodifiableEntity", f"Cannot perform the operation on the protected role '{role.name}' - this "
                      "role is only modifiable by AWS")  # fmt: skip


@rule("iam", "TagRole")
def role_tags(given: Parameters, region: str) -> None:
    role = _named(roles.iam().roles, given["RoleName"])
    held = {str(tag["Key"]).lower() for tag in (role.tags if role else [])}
    if len(held | {str(tag.get("Key")).lower() for tag in given.get("Tags") or []}) > _MOST_TAGS:
        raise _exceeded("TagsPerResource", _MOST_TAGS)


@rule("iam", "CreateServiceLinkedRole")
def service_linked(given: Parameters, region: str) -> None:
    service = str(given["AWSServiceName"])
    if not principals.SERVICE.fullmatch(service):
        raise Refusal("InvalidInput", f"Service {service} is not valid.")
    for role in roles.iam().roles.values():
        if str(role.path).startswith(f"/aws-service-role/{service}/") and not given.get("CustomSuffix"):
            raise Refusal(
                "InvalidInput",
                f"Service role name {role.name} has been taken in this account, please try a different suffix.",
            )


@rule("iam", "DeleteInstanceProfile")
def delete_profile(given: Parameters, region: str) -> None:
    profile = _named(roles.iam().instance_profiles, given["InstanceProfileName"])
    if profile and profile.roles:
        raise _conflict("remove roles from instance profile")


@rule("iam", "DeleteRole")
def delete_role(given: Parameters, region: str) -> None:
    role = _named(roles.iam().roles, given["RoleName"])
    if role and role.managed_policies:
        raise _conflict("detach all policies")


@rule("iam", "DeleteUser")
def delete_user(given: Parameters, region: str) -> None:
    user = roles.iam().users.get(given["UserName"])
    if user is None:
        return
    if user.managed_policies or user.policies:
        raise _conflict("detach all policies" if user.managed_policies else "delete policies")
    if user.access_keys:
        raise _conflict("delete access keys")


@rule("iam", "CreateRole", "CreatePolicy", "CreateInstanceProfile", "CreateUser", "TagRole")
def tags(given: Parameters, region: str) -> None:
    keys = [str(tag.get("Key")) for tag in given.get("Tags") or []]
    if len({key.lower() for key in keys}) < len(keys):
        raise Refusal("InvalidInput", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
    if any(key.lower().startswith("aws:") for key in keys):
        raise Refusal("InvalidInput", "System tags cannot be added/updated/deleted by requester")
    if len(keys) > _MOST_TAGS:
        raise _exceeded("TagsPerResource", _MOST_TAGS)


@rule("sts", "AssumeRole")
def assume(given: Parameters, region: str) -> None:
    """AWS's error is the same for a role that this account may not assume and for one that does not exist."""
    arn = str(given["RoleArn"])
    if not re.fullmatch(r"arn:aws[\w-]*:iam::\d{12}:role/.+", arn):
        raise Refusal("ValidationError", f"{arn} is invalid")
    role = next((each for each in roles.iam().roles.values() if each.arn == arn), None)
    if role is None or not _trusts_accounts(role.assume_role_policy_document):
        who = f"User: arn:aws:iam::{ACCOUNT_ID}:user/localcloud"
        raise Refusal("AccessDenied", f"{who} is not authorized to perform: sts:AssumeRole on resource: {arn}", 403)
    if int(given.get("DurationSeconds") or 0) > int(role.max_session_duration or 3600):
        raise Refusal(
            "ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        )


def _trusts_accounts(document: Any) -> bool:
    parsed = json.loads(document) if isinstance(document, str) else document
    for statement in documents.listed(parsed.get("Statement")):
        principal = statement.get("Principal")
        named = documents.listed(principal.get("AWS")) if isinstance(principal, dict) else [principal]
        if statement.get("Effect") == "Allow" and any(str(n) == "*" or ACCOUNT_ID in str(n) for n in named):
            return True
    return False
