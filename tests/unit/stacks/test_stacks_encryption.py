"""A customer's key and permissions boundary: on everything that takes one, and what nodes may do with the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_stacks_roles import actions, resources, statements

from tests import aws_models

Template = dict[str, Any]

KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
BOUNDARY = "arn:aws:iam::123456789012:policy/edge"

EVERYTHING = """
name: Keyed
region: us-east-1
availability_zone: us-east-1a
partitions:
  - {name: train, instance_types: [p4d.24xlarge], min_nodes: 2, max_nodes: 4}
parameter_servers: {max_nodes: 2}
storage:
  - {mount: /fsx, type: fsx-lustre, data_repositories: [{path: /a, s3: "s3://my-bucket/a", import: [new]}]}
  - {mount: /scratch, type: fsx-lustre, deployment: scratch-2}
  - {mount: /efs, type: efs}
  - {mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 150}
s3_access: [{uri: "s3://my-bucket/read"}]
accounting: rds
monitoring: {alarm_email: ops@example.com}
budget: {monthly_usd: 500000, email: ops@example.com, at_limit: stop-launches}
"""
SECURED = EVERYTHING + f"security: {{kms_key_arn: '{KEY}', permissions_boundary_arn: '{BOUNDARY}'}}\n"


@pytest.fixture(scope="module")
def secured(template_of: Callable[[str], Template]) -> Template:
    return template_of(SECURED)


@pytest.fixture(scope="module")
def plain(template_of: Callable[[str], Template]) -> Template:
    return template_of(EVERYTHING)


def keys(template: Template) -> Iterator[tuple[str, str, Any]]:
    """(logical id, property, value) of each place for a key that CloudFormation's schemas know; None: AWS's own."""
    for logical_id, found in template["Resources"].items():
        properties = found.get("Properties", {})
        for name in aws_models.schema(found["Type"])["properties"]:
            if name in ("KmsKeyId", "KmsMasterKeyId", "KmsKeyArn", "MasterUserSecretKmsKeyId"):
                yield logical_id, name, properties.get(name)
        for ebs in _disks(properties.get("LaunchTemplateData", properties)):
            yield logical_id, "Ebs", ebs.get("KmsKeyId")


def _disks(properties: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for mapping in properties.get("BlockDeviceMappings") or []:
        assert mapping["Ebs"]["Encrypted"] is True
        yield mapping["Ebs"]


def test_everything_that_accepts_a_key_uses_the_customers(secured: Template) -> None:
    found = list(keys(secured))
    assert [each for each in found if each[2] not in (KEY, {"Fn::Select": [1, KEY]})] == [
        each
        for each in found
        if each[0].startswith("StorageScratchFileSystem")  # FSx has a key of its own for scratch
    ]
    kinds = {secured["Resources"][logical_id]["Type"].removeprefix("AWS::") for logical_id, _, _ in found}
    assert kinds >= {
        "EC2::Instance",
        "EC2::LaunchTemplate",
        "EC2::Volume",
        "EFS::FileSystem",
        "FSx::FileSystem",
        "Logs::LogGroup",
        "RDS::DBInstance",
        "SNS::Topic",
        "SecretsManager::Secret",
    }


def test_without_a_key_awss_own_encrypts(plain: Template) -> None:
    """But for the alarms' topic: CloudWatch may not use the key that AWS has for topics."""
    named = [each[:2] for each in keys(plain) if each[2] is not None]
    assert [name for _, name in named] == ["KmsMasterKeyId"]
    (publish,) = on_keys(plain, "")
    assert publish["Condition"] == SNS and resources(publish) != [KEY]


def on_keys(template: Template, role: str) -> Iterator[dict[str, Any]]:
    """Statements about keys, without the one for bundles, whose key only the account's bootstrap knows."""
    for statement in statements(template, role):
        of_bundles = "kms:EncryptionContext:aws:s3:arn" in statement.get("Condition", {}).get("StringLike", {})
        if any(action.startswith("kms:") for action in actions(statement)) and not of_bundles:
            yield statement


def of_kms(template: Template, role: str) -> dict[frozenset[str], dict[str, Any]]:
    found = list(on_keys(template, role))
    assert all(resources(statement) == [KEY] for statement in found)
    return {frozenset(actions(statement)): statement["Condition"] for statement in found}


SNS = {"StringEquals": {"kms:ViaService": "sns.us-east-1.amazonaws.com"}}
SECRETS = {"StringEquals": {"kms:ViaService": "secretsmanager.us-east-1.amazonaws.com"}}


def test_the_head_launches_encrypted_nodes_reads_secrets_and_sends_notices(secured: Template) -> None:
    by_ec2 = {"StringEquals": {"kms:ViaService": "ec2.us-east-1.amazonaws.com"}}
    disks = ["Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"]
    assert of_kms(secured, "HeadRole") == {
        frozenset({"kms:Decrypt"}): SECRETS,
        frozenset({"kms:Decrypt", "kms:GenerateDataKey"}): SNS,
        frozenset(f"kms:{action}" for action in disks): by_ec2,
        frozenset({"kms:CreateGrant"}): {**by_ec2, "Bool": {"kms:GrantIsForAWSResource": "true"}},
    }


def test_daily_snapshots_are_made_of_an_encrypted_volume(secured: Template) -> None:
    by_ec2 = {"StringEquals": {"kms:ViaService": "ec2.us-east-1.amazonaws.com"}}
    found = of_kms(secured, "HomeSnapshotRole")
    assert found[frozenset({"kms:CreateGrant"})] == {**by_ec2, "Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert by_ec2 in found.values()


def test_compute_nodes_read_secrets(secured: Template) -> None:
    assert of_kms(secured, "ComputeRole") == {frozenset({"kms:Decrypt"}): SECRETS}


@pytest.mark.parametrize(
    ("access", "allowed"), [("read", {"kms:Decrypt"}), ("read-write", {"kms:Decrypt", "kms:GenerateDataKey"})]
)
def test_jobs_use_the_key_for_objects_alone(
    template_of: Callable[[str], Template], secured: Template, access: str, allowed: set[str]
) -> None:
    text = SECURED.replace('{uri: "s3://my-bucket/read"}', f'{{uri: "s3://my-bucket/read", access: {access}}}')
    by_s3 = {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    assert of_kms(template_of(text), "StorageJobsRole") == {frozenset(allowed): by_s3}


def test_every_role_is_within_the_boundary(secured: Template, plain: Template) -> None:
    held = [r["Properties"] for r in secured["Resources"].values() if r["Type"] == "AWS::IAM::Role"]
    assert len(held) >= 4
    assert all(role["PermissionsBoundary"] == BOUNDARY for role in held)
    free = [r["Properties"] for r in plain["Resources"].values() if r["Type"] == "AWS::IAM::Role"]
    assert not [role for role in free if "PermissionsBoundary" in role]
