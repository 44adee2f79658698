"""What nodes may do on AWS, and what they may not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from stacks.storage.s3_access import ONCE

Template = dict[str, Any]

WITHOUT_SCOPE = {
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeTags",
    "ec2:DescribeVolumes",
    "cloudwatch:PutMetricData",
}
"""Actions for which AWS knows no resource."""

WATCHING = {"logs:CreateLogStream", "logs:PutLogEvents", "cloudwatch:PutMetricData"}

INSTANCES = "instance/*"
ALONE = "name: Mine\nregion: us-east-1\npartitions: [{name: a, instance_types: [g5.xlarge], max_nodes: 1}]\n"
OURS = {"aws:ResourceTag/gpucluster:cluster": "GpuCluster", "aws:ResourceTag/gpucluster:role": "compute"}


def statements(template: Template, role: str) -> list[dict[str, Any]]:
    return [
        statement
        for found in template["Resources"].values()
        if found["Type"] == "AWS::IAM::Policy" and found["Properties"]["Roles"][0]["Ref"].startswith(role)
        for statement in found["Properties"]["PolicyDocument"]["Statement"]
    ]


def actions(statement: dict[str, Any]) -> set[str]:
    found = statement["Action"]
    return {found} if isinstance(found, str) else set(found)


def allowing(template: Template, role: str, action: str) -> list[dict[str, Any]]:
    return [statement for statement in statements(template, role) if action in actions(statement)]


def one(template: Template, role: str, action: str) -> dict[str, Any]:
    (found,) = allowing(template, role, action)
    return found


def resources(statement: dict[str, Any]) -> list[str]:
    """As text: what only CloudFormation knows shows as ${LogicalId}."""
    found = statement["Resource"]
    return [flat(each) for each in (found if isinstance(found, list) else [found])]


def flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return "".join(flat(part) for part in value["Fn::Join"][1])
    return "${" + str(value.get("Ref") or ".".join(value["Fn::GetAtt"])) + "}"


@pytest.mark.parametrize("role", ["HeadRole", "ComputeRole"])
def test_everything_that_can_have_a_scope_has_one(template: Template, role: str) -> None:
    found = statements(template, role)
    assert found
    for statement in found:
        assert statement["Effect"] == "Allow"
        assert not [action for action in actions(statement) if "*" in action]
        if "*" in resources(statement):
            assert actions(statement) <= WITHOUT_SCOPE, statement


def test_the_heads_calls_are_these(template: Template) -> None:
    assert {action for statement in statements(template, "HeadRole") for action in actions(statement)} == {
        "s3:GetObject",
        "ssm:GetParameter",
        "ssm:PutParameter",
        "secretsmanager:GetSecretValue",
        "kms:Decrypt",
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceStatus",
        "ec2:RunInstances",
        "ec2:CreateTags",
        "ec2:TerminateInstances",
        "ec2:DescribeVolumes",
        "ec2:AttachVolume",
        "ec2:DetachVolume",
        "ec2:StopInstances",
        "iam:PassRole",
        "route53:ChangeResourceRecordSets",
        "route53:ListResourceRecordSets",
        *WATCHING,
    }


def test_a_compute_nodes_calls_are_these(template: Template) -> None:
    assert {action for statement in statements(template, "ComputeRole") for action in actions(statement)} == {
        "s3:GetObject",
        "ssm:GetParameter",
        "secretsmanager:GetSecretValue",
        "kms:Decrypt",
        "ec2:DescribeTags",
        "ec2:CreateTags",
        *WATCHING,
    }


@pytest.mark.parametrize("role", ["HeadRole", "ComputeRole"])
def test_nodes_read_bundles_that_a_key_of_the_accounts_bootstrap_encrypts(template: Template, role: str) -> None:
    """`cdk bootstrap --bootstrap-kms-key-id`: aws-cdk issue 25100. Without the bundle no node boots."""
    statement, reading = one(template, role, "kms:Decrypt"), one(template, role, "s3:GetObject")
    (bundles,) = resources(reading)
    assert statement["Condition"]["StringEquals"] == {"kms:ViaService": "s3.us-east-1.amazonaws.com"}
    context = statement["Condition"]["StringLike"]["kms:EncryptionContext:aws:s3:arn"]
    assert [flat(each) for each in context] == [bundles, bundles.removesuffix("/GpuCluster/*")]
    assert bundles.endswith("/GpuCluster/*")
    assert resources(statement) == ["arn:${AWS::Partition}:kms:us-east-1:*:key/*"]


def node_types(template: Template) -> list[str]:
    found = {
        each["Properties"]["LaunchTemplateData"]["InstanceType"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::EC2::LaunchTemplate"
    }
    return sorted(found)


def test_every_role_of_a_service_serves_this_account_alone(template: Template) -> None:
    """Otherwise the service could be made to take the role for somebody else's resource: a confused deputy. EC2 takes
    the role of an instance only through an instance profile of the same account."""
    for logical_id, each in template["Resources"].items():
        trust = each.get("Properties", {}).get("AssumeRolePolicyDocument", {}).get("Statement", ())
        for statement in trust:
            service = statement["Principal"].get("Service", "ec2.amazonaws.com")
            if service != "ec2.amazonaws.com":
                ours = statement.get("Condition", {})
                assert ours.get("StringEquals", {}).get("aws:SourceAccount") == "123456789012", logical_id
                assert "aws:SourceArn" in ours.get("ArnLike", {}), logical_id


def test_the_head_launches_from_our_templates_alone(template: Template) -> None:
    tagged, nodes, made, named = allowing(template, "HeadRole", "ec2:RunInstances")
    assert tagged["Condition"] == {"StringEquals": {"aws:ResourceTag/gpucluster:cluster": "GpuCluster"}}
    assert [each.rpartition(":")[2] for each in resources(tagged)] == ["launch-template/*", "placement-group/*"]
    for statement in (made, named):
        assert statement["Condition"] == {"Bool": {"ec2:IsLaunchTemplateResource": "true"}}
    assert [each.rpartition(":")[2] for each in resources(nodes)] == [INSTANCES]
    assert nodes["Condition"] == {
        "Bool": {"ec2:IsLaunchTemplateResource": "true"},
        "StringEqualsIfExists": {"ec2:InstanceType": node_types(template), "ec2:MetadataHttpTokens": "required"},
    }
    assert [each.rpartition(":")[2] for each in resources(made)] == ["volume/*", "network-interface/*"]
    used = [each.partition(":ec2:")[2] for each in resources(named)]
    wide = ("subnet/*", "security-group/*", "image/*", "launch-template/*", "placement-group/*")
    assert not [each for each in used if each.endswith(wide)]
    assert "us-east-1::image/ami-0123456789abcdef0" in used


@pytest.mark.parametrize("kind", ["AWS::EC2::LaunchTemplate", "AWS::EC2::PlacementGroup"])
def test_resources_allowed_by_tag_have_the_tag(template: Template, kind: str) -> None:
    found = [each["Properties"] for each in template["Resources"].values() if each["Type"] == kind]
    assert found
    for properties in found:
        specifications = properties.get("TagSpecifications") or [properties]
        assert {"Key": "gpucluster:cluster", "Value": "GpuCluster"} in specifications[0]["Tags"]
        assert specifications[0].get("ResourceType", "launch-template") == "launch-template"


def test_the_head_may_pass_only_the_compute_role(template: Template) -> None:
    statement = one(template, "HeadRole", "iam:PassRole")
    (passed,) = resources(statement)
    assert passed.startswith("${ComputeRole") and passed.endswith(".Arn}")
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_in_china_ec2_has_two_names(template_of: Callable[[str], Template]) -> None:
    """As in AWSEC2SpotServiceRolePolicy and others of AWS's own."""
    text = "name: c\nregion: cn-north-1\npartitions: [{name: g, instance_types: [g4dn.12xlarge], max_nodes: 1}]\n"
    statement = one(template_of(text), "HeadRole", "iam:PassRole")
    names = ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": names}}


def test_the_head_may_terminate_only_the_clusters_compute_nodes(template: Template) -> None:
    statement = one(template, "HeadRole", "ec2:TerminateInstances")
    assert statement["Condition"] == {"StringEquals": OURS}
    assert [each.rpartition(":")[2] for each in resources(statement)] == [INSTANCES]


def test_tags_are_set_at_launch_and_names_after_it(template: Template) -> None:
    at_launch, after = allowing(template, "HeadRole", "ec2:CreateTags")
    assert at_launch["Condition"]["StringEquals"] == {
        "ec2:CreateAction": "RunInstances",
        "aws:RequestTag/gpucluster:cluster": "GpuCluster",
    }
    assert after["Condition"]["StringEquals"] == OURS
    assert after["Condition"]["ForAllValues:StringEquals"] == {"aws:TagKeys": ["Name", "gpucluster:node"]}


def test_a_compute_node_tags_nothing_but_its_failure(template: Template) -> None:
    statement = one(template, "ComputeRole", "ec2:CreateTags")
    assert statement["Condition"]["ForAllValues:StringEquals"] == {"aws:TagKeys": ["gpucluster:boot-failure"]}
    assert statement["Condition"]["StringEquals"]["aws:ResourceTag/gpucluster:cluster"] == "GpuCluster"


def test_the_head_writes_no_parameter_but_its_host_key(template: Template) -> None:
    (written,) = resources(one(template, "HeadRole", "ssm:PutParameter"))
    logical_id = written.rpartition("${")[2].rstrip("}")
    assert template["Resources"][logical_id]["Properties"]["Name"] == "/gpucluster/GpuCluster/host-key"


@pytest.mark.parametrize("role", ["HeadRole", "ComputeRole"])
def test_nodes_read_this_clusters_bundles_parameters_and_key(template: Template, role: str) -> None:
    (bundles,) = resources(one(template, role, "s3:GetObject"))
    assert bundles.endswith(":s3:::cdk-hnb659fds-assets-123456789012-us-east-1/GpuCluster/*")
    parameters = resources(one(template, role, "ssm:GetParameter"))
    assert all(":parameter/gpucluster/GpuCluster/" in each for each in parameters)
    (secret,) = resources(one(template, role, "secretsmanager:GetSecretValue"))
    assert secret.startswith("${MungeKey")
    bundle = next(
        found["Properties"]["Value"]
        for found in template["Resources"].values()
        if found["Type"] == "AWS::SSM::Parameter" and found["Properties"]["Name"].endswith("/bundle")
    )
    assert "s3://cdk-hnb659fds-assets-123456789012-us-east-1/GpuCluster/" in json.dumps(bundle)


def test_compute_nodes_read_nothing_that_ends_an_update(template: Template) -> None:
    """Whoever has a wait condition's URL may signal success or failure."""
    readable = [each.partition(":parameter")[2] for each in resources(one(template, "ComputeRole", "ssm:GetParameter"))]
    path = "/gpucluster/GpuCluster"
    assert readable[:3] == [f"{path}/{name}" for name in ("nodes/bundle", "head", "jobs")]
    assert all(re.fullmatch(rf"{path}/storage/[\w-]+", each) for each in readable[3:])
    told = [
        found["Properties"]["Name"]
        for found in template["Resources"].values()
        if found["Type"] == "AWS::SSM::Parameter" and "Handle" in json.dumps(found["Properties"]["Value"])
    ]
    assert told == [f"{path}/bundle"]


def test_records_of_nodes_and_of_the_zone_itself_are_changed(template: Template) -> None:
    statement = one(template, "HeadRole", "route53:ChangeResourceRecordSets")
    assert statement["Condition"] == {
        "ForAllValues:StringEquals": {"route53:ChangeResourceRecordSetsRecordTypes": ["A", "SOA"]}
    }
    assert resources(statement)[0].rpartition("/")[2].startswith("${NetworkZone")


def test_compute_nodes_keep_environments_below_their_prefix_alone(template_of: Callable[[str], Template]) -> None:
    kept = template_of(ALONE + "software: {cache: s3://bucket/our/envs/}\n")
    archives = ["arn:${AWS::Partition}:s3:::bucket/our/envs/*"]
    reading = one(kept, "ComputeRole", "s3:AbortMultipartUpload")
    assert actions(reading) == {"s3:GetObject", "s3:AbortMultipartUpload"} and resources(reading) == archives
    # what other clusters restore as root, no node replaces: tests/cloud/test_environment_cache.py
    for written, condition in zip(allowing(kept, "ComputeRole", "s3:PutObject"), ONCE, strict=True):
        assert (actions(written), resources(written)) == ({"s3:PutObject"}, archives)
        assert written["Condition"] == condition
    listing = one(kept, "ComputeRole", "s3:ListBucket")
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["our/envs/*"]}}
    assert not allowing(kept, "HeadRole", "s3:PutObject")
    assert not allowing(template_of(ALONE), "ComputeRole", "s3:PutObject")


PACKAGES = "arn:${AWS::Partition}:s3:::my-bucket/envs/packages/*"


def test_jobs_keep_their_packages_below_their_prefix_alone(template_of: Callable[[str], Template]) -> None:
    """The environments beside it, which nodes restore as root, are out of their reach."""
    template = template_of(ALONE + "software: {cache: s3://my-bucket/envs}\n")
    assert {action for each in statements(template, "StorageJobsRole") for action in actions(each)} == {
        "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListBucket",
    }  # fmt: skip
    for action in ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"):
        assert resources(one(template, "StorageJobsRole", action)) == [PACKAGES]
    listing = one(template, "StorageJobsRole", "s3:ListBucket")
    assert resources(listing) == ["arn:${AWS::Partition}:s3:::my-bucket"]
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["envs/packages/*"]}}
    key = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
    encrypted = template_of(ALONE + f"software: {{cache: s3://my-bucket/envs}}\nsecurity: {{kms_key_arn: '{key}'}}\n")
    assert one(encrypted, "StorageJobsRole", "kms:GenerateDataKey")["Resource"] == key


def test_jobs_of_several_users_keep_no_packages(template_of: Callable[[str], Template]) -> None:
    cached = ALONE + "software: {cache: s3://my-bucket/envs}\nusers: [{name: ada}]\n"
    assert statements(template_of(cached), "StorageJobsRole") == []
    access = template_of(cached + "s3_access: [{uri: s3://my-bucket/data}]\n")
    assert "packages" not in str(statements(access, "StorageJobsRole"))
