"""The key that encrypts the cluster's data: the customer's if cluster.yaml names one, else AWS's own.

Every resource with a key takes `key_arn(context.key)`, or `context.key` if its construct takes an IKey. This stack
cannot change the policy of a customer's key. Beside the account's own roles (the statement that KMS puts into every new
key: `kms:*` for the account), the policy must allow:

- `logs.<region>.amazonaws.com`: Encrypt, Decrypt, ReEncrypt, GenerateDataKey and DescribeKey, for log groups.
  Without it CloudWatch Logs refuses to create a group under the key.
- `cloudwatch.amazonaws.com` and `budgets.amazonaws.com`: Decrypt and GenerateDataKey, for alarms and budgets to reach
  an encrypted topic. Without it their messages are lost silently.
- the account's role AWSServiceRoleForEC2Spot, if nodes are bought as spot: CreateGrant, Decrypt, DescribeKey,
  GenerateDataKeyWithoutPlaintext and ReEncrypt. EC2 starts those under that role, and not as the head node.

EC2, EFS, FSx, RDS and Secrets Manager use their caller's permissions. The caller is CloudFormation during a deployment,
and the head node when it launches nodes or creates file systems; `grant_volumes` and `grant_file_systems` give it the
permissions. It is the user when `gpucluster start` or `up` starts the head node: docs/policies/deployer.json has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.arns import arn


def customer_key(scope: Construct, arn: str | None) -> kms.IKey | None:
    """None: AWS's own key for each service."""
    return kms.Key.from_key_arn(scope, "CustomerKey", arn) if arn else None


def key_arn(key: kms.IKey | None) -> str | None:
    """For properties such as `kms_key_id`. None leaves the property out, which means AWS's own key."""
    return key.key_arn if key else None


def grant_volumes(role: iam.Role, key: kms.IKey | None) -> None:
    """Allows a role to launch instances with disks that the key encrypts, and to attach such disks. EC2 asks KMS in the
    caller's name.

    EC2 keeps a grant for as long as the instance has the disk. The caller may create grants only for AWS's services.
    """
    if key:
        actions = ("Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")
        _allow(role, key, actions, service="ec2")
        _allow(role, key, ("CreateGrant",), service="ec2", only_for_aws=True)


def grant_file_systems(policy: iam.ManagedPolicy, key: kms.IKey | None) -> None:
    """Allows a role to create FSx file systems that the key encrypts. FSx asks KMS in the caller's name, and keeps a
    grant.

    FSx's guide lists these permissions as required (Data encryption at rest).
    """
    if key:
        actions = ("Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext")
        policy.add_statements(
            _statement(policy, key, actions, service="fsx"),
            _statement(policy, key, ("CreateGrant",), service="fsx", only_for_aws=True),
        )


def grant_secrets(role: iam.Role, key: kms.IKey | None) -> None:
    """Allows a role to decrypt secrets; `secretsmanager:GetSecretValue` limits which ones."""
    if key:
        _allow(role, key, ("Decrypt",), service="secretsmanager")


def grant_topic(role: iam.Role, key: kms.IKey) -> None:
    """Allows a role to publish to an encrypted topic, for which SNS uses the publisher's permissions (SNS's guide, "Key
    management")."""
    _allow(role, key, ("Decrypt", "GenerateDataKey"), service="sns")


def grant_objects(role: iam.Role, key: kms.IKey | None, *, write: bool) -> None:
    """For buckets that the same key encrypts. The policy of another key must name the role itself."""
    if key:
        _allow(role, key, ("Decrypt", "GenerateDataKey") if write else ("Decrypt",), service="s3")


def grant_key_of_bundles(role: iam.Role, objects: str) -> None:
    """Allows a role to read bundles whose bucket has a customer's key (`cdk bootstrap --bootstrap-kms-key-id`): S3
    decrypts in the reader's name, and no template knows the key (aws-cdk issue 25100). `objects`: their ARN.

    Any key, but only for S3's data keys of these objects. With S3 Bucket Keys, the context of those is the bucket's
    ARN (S3 user guide, "Reducing the cost of SSE-KMS with Amazon S3 Bucket Keys").
    """
    context = {"kms:EncryptionContext:aws:s3:arn": [objects, objects.partition("/")[0]]}
    conditions = {"StringEquals": {"kms:ViaService": _via(role, "s3")}, "StringLike": context}
    any_key = arn(role, "kms", "key/*", account="*")
    role.add_to_policy(iam.PolicyStatement(actions=["kms:Decrypt"], resources=[any_key], conditions=conditions))


def _allow(role: iam.Role, key: kms.IKey, actions: Sequence[str], *, service: str, only_for_aws: bool = False) -> None:
    role.add_to_policy(_statement(role, key, actions, service=service, only_for_aws=only_for_aws))


def _statement(
    scope: Construct, key: kms.IKey, actions: Sequence[str], *, service: str, only_for_aws: bool = False
) -> iam.PolicyStatement:
    conditions: dict[str, object] = {"StringEquals": {"kms:ViaService": _via(scope, service)}}
    if only_for_aws:
        conditions["Bool"] = {"kms:GrantIsForAWSResource": "true"}
    return iam.PolicyStatement(
        actions=[f"kms:{action}" for action in actions], resources=[key.key_arn], conditions=conditions
    )


def _via(scope: Construct, service: str) -> str:
    """The same in every AWS partition: the template of `cdk bootstrap` (FileAssetsBucketEncryptionKey) has no other
    name for China."""
    return f"{service}.{cdk.Stack.of(scope).region}.amazonaws.com"
