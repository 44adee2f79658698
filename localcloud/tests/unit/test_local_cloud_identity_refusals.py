"""Rules of IAM and STS that no model contains: localcloud/validation/iam.py, documents.py."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.tests.in_process import InProcess
from localcloud.tests.refusal_cases import ACCOUNT, Case, allow, arn, document, hold, managed, new, role, trust


def long_policy(characters: int) -> str:
    return document(allow(Resource=f"arn:aws:s3:::{'b' * characters}/*"))


def attached(iam: Any, count: int = 1) -> tuple[str, str]:
    name = role(iam)
    for _ in range(count):
        policy = managed(iam)
        iam.attach_role_policy(RoleName=name, PolicyArn=policy)
    return name, policy


def profile(iam: Any) -> str:
    name = role(iam)
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    return name


def assume(sts: Any, role_name: str) -> Any:
    return sts.assume_role(RoleArn=arn("role", role_name), RoleSessionName="somebody")


IAM: dict[str, Case] = {
    "trust without JSON": (lambda c, _: c.create_role(RoleName=new(), AssumeRolePolicyDocument="{nope"),
                           "MalformedPolicyDocument", 400),
    "trust with a resource": (lambda c, _: role(c, Resource="*"), "MalformedPolicyDocument", 400),
    "trust of another action": (lambda c, _: role(c, Action="s3:GetObject"), "MalformedPolicyDocument", 400),
    "long trust": (lambda c, _: role(c, Sid="s" * 2048), "LimitExceeded", 409),
    "role twice": (lambda c, _: c.create_role(RoleName=role(c).upper(), AssumeRolePolicyDocument=trust()),
                   "EntityAlreadyExists", 409),
    "profile twice": (lambda c, _: c.create_instance_profile(InstanceProfileName=profile(c)),
                      "EntityAlreadyExists", 409),
    "long inline policy": (lambda c, _: c.put_role_policy(
        RoleName=role(c), PolicyName="x", PolicyDocument=long_policy(10240)), "LimitExceeded", 409),
    "long managed policy": (lambda c, _: c.create_policy(PolicyName=new(), PolicyDocument=long_policy(6144)),
                            "LimitExceeded", 409),
    "policy with a principal": (lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(Principal="*"))), "MalformedPolicyDocument", 400),
    "policy without a vendor": (lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(Action="RunInstances"))), "MalformedPolicyDocument", 400),
    "policy of another version": (lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(), Version="2020-01-01")), "MalformedPolicyDocument", 400),
    "eleventh policy": (lambda c, _: c.attach_role_policy(RoleName=attached(c, 10)[0], PolicyArn=managed(c)),
                        "LimitExceeded", 409),
    "policy in use": (lambda c, _: c.delete_policy(PolicyArn=attached(c)[1]), "DeleteConflict", 409),
    "role with a policy": (lambda c, _: c.delete_role(RoleName=attached(c)[0]), "DeleteConflict", 409),
    "profile with a role": (lambda c, _: c.delete_instance_profile(InstanceProfileName=profile(c)),
                            "DeleteConflict", 409),
    "tag twice": (lambda c, _: c.tag_role(RoleName=role(c), Tags=[{"Key": k, "Value": "x"} for k in "aA"]),
                  "InvalidInput", 400),
    "reserved tag": (lambda c, _: c.tag_role(RoleName=role(c), Tags=[{"Key": "aws:x", "Value": "x"}]),
                     "InvalidInput", 400),
    "statement's id": (lambda c, _: c.create_policy(
        PolicyName=new(), PolicyDocument=document(allow(Sid="a b"))), "MalformedPolicyDocument", 400),
    "trust in nobody": (lambda c, _: role(c, Principal={"AWS": arn("role", new())}), "MalformedPolicyDocument", 400),
    "trust in a word": (lambda c, _: role(c, Principal={"Service": "ec2"}), "MalformedPolicyDocument", 400),
    "trust in the account": (lambda c, _: c.get_role(
        RoleName=role(c, Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"})), "", 200),
    "role that a profile lacks": (lambda c, _: c.remove_role_from_instance_profile(
        InstanceProfileName=profile(c), RoleName=role(c)), "NoSuchEntity", 404),
    "service's role twice": (lambda c, _: [c.create_service_linked_role(
        AWSServiceName="spotfleet.amazonaws.com") for _ in "12"], "InvalidInput", 400),
    "policy that is not there": (lambda c, _: c.list_policy_versions(PolicyArn=arn("policy", new())),
                                 "NoSuchEntity", 404),
}  # fmt: skip


STS: dict[str, Case] = {
    "role of a service": (lambda c, cloud: assume(c, role(cloud.client("iam"))), "AccessDenied", 403),
    "no role": (lambda c, _: assume(c, "nobody"), "AccessDenied", 403),
    "role of this account": (lambda c, cloud: assume(c, role(cloud.client("iam"), Principal={"AWS": ACCOUNT})),
                             "", 200),
    "no ARN": (lambda c, _: c.assume_role(RoleArn="x" * 20, RoleSessionName="somebody"), "ValidationError", 400),
    "session policy": (lambda c, cloud: c.assume_role(
        RoleArn=arn("role", role(cloud.client("iam"), Principal={"AWS": ACCOUNT})), RoleSessionName="somebody",
        Policy="nope"), "MalformedPolicyDocument", 400),
}  # fmt: skip

TABLES = {"iam": IAM, "sts": STS}


@pytest.mark.parametrize(("service", "name"), [(service, name) for service, cases in TABLES.items() for name in cases])
def test_requests_that_the_service_refuses(cloud: InProcess, service: str, name: str) -> None:
    hold(cloud, service, TABLES[service][name])
