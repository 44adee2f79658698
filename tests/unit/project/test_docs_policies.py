"""docs/policies against the calls that the code of the user's machine makes."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name
from moto.ec2.models import ec2_backends

from localcloud.clients import ACCOUNT_ID
from localcloud.ec2.authorization import instance_connect
from localcloud.identity.permissions import ALLOWED, evaluate
from localcloud.pace.hooks import Pace
from localcloud.protocol.calls import Call

ROOT = Path(__file__).resolve().parents[3]
SAGEMAKER = ROOT / "gpucluster" / "sagemaker"
SOURCES = sorted(path for path in (ROOT / "gpucluster").rglob("*.py") if SAGEMAKER not in path.parents)
PREFIXES = {"service-quotas": "servicequotas", "efs": "elasticfilesystem"}
# IAM's names where they are not the operation's: Service Authorization Reference, Amazon S3.
ACTIONS = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:DeleteObjects": "s3:DeleteObject",
    "budgets:DescribeBudgets": "budgets:ViewBudget",
}
# The services of `Deployment.clients` and of the online checks.
SERVICES = (
    *(
        "budgets",
        "ce",
        "cloudformation",
        "cloudwatch",
        "ec2",
        "ec2-instance-connect",
        "efs",
        "fsx",
        "iam",
        "kms",
        "rds",
        "route53",
        "s3",
    ),
    *("service-quotas", "ssm", "sts"),
)
NAMED = re.compile(r"""\(\s*"([a-z0-9-]+)",\s*"([a-z]+_[a-z0-9_]+)\"""")
ON_CLIENT = re.compile(r"""\b([a-z0-9]+|client\("[a-z0-9-]+"\))\s*\.([a-z]+_[a-z0-9_]+)\(""")
PAGED = re.compile(r"""\b([a-z0-9]+)\s*\.get_paginator\("([a-z0-9_]+)"\)""")


@cache
def operations(service: str) -> dict[str, str]:
    model = botocore.session.get_session().get_service_model(service)
    return {xform_name(name): name for name in model.operation_names}


def actions(sources: Iterable[Path] = SOURCES, services: Container[str] = SERVICES) -> set[str]:
    found = set()
    for path in sources:
        text = path.read_text()
        calls = [*NAMED.findall(text), *ON_CLIENT.findall(text), *PAGED.findall(text)]
        for service, method in calls:
            name = service.removeprefix('client("').removesuffix('")')
            if name in services and method in operations(name):
                action = f"{PREFIXES.get(name, name)}:{operations(name)[method]}"
                found.add(ACTIONS.get(action, action))
    return found


def granted(policy: str) -> set[str]:
    document = json.loads((ROOT / "docs" / "policies" / policy).read_text())
    listed = [statement["Action"] for statement in document["Statement"]]
    return {action for entry in listed for action in ([entry] if isinstance(entry, str) else entry)}


def test_the_code_makes_calls() -> None:
    assert {"ec2:DescribeInstances", "servicequotas:GetServiceQuota", "s3:ListBucket"} <= actions()


def test_the_deployers_policy_allows_every_call() -> None:
    allowed = granted("deployer.json")
    assert {action for action in actions() if not any(fnmatchcase(action, pattern) for pattern in allowed)} == set()


def test_the_policy_for_sagemaker_allows_every_call() -> None:
    called = actions(SAGEMAKER.rglob("*.py"), ("s3", "sagemaker", "logs", "cloudwatch", "iam", "ecr"))
    assert {"s3:DeleteObject", "s3:ListBucket", "sagemaker:CreateTrainingJob", "cloudwatch:GetMetricData"} <= called
    assert called <= granted("sagemaker.json")


@pytest.mark.parametrize("policy", ["deployer.json", "jobs.json", "user.json"])
def test_no_policy_has_an_action_without_a_call(policy: str) -> None:
    # CDK assumes roles; the tunnel is opened by a signed URL; an image is tagged as it is made; waiters ask for states.
    others = {"sts:AssumeRole", "ec2-instance-connect:OpenTunnel", "ec2:CreateTags", "budgets:DescribeBudgetAction"}
    # EC2 calls KMS in the name of whoever starts an instance.
    others |= {"kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"}
    idle = {pattern for pattern in granted(policy) if not any(fnmatchcase(action, pattern) for action in actions())}
    assert idle <= others


def test_the_submitters_policy_allows_reaching_the_head() -> None:
    reach = {"ec2-instance-connect:OpenTunnel", "ec2-instance-connect:SendSSHPublicKey", "ssm:GetParameter"}
    assert reach | {"cloudformation:DescribeStacks", "ec2:DescribeInstances"} <= granted("jobs.json")


@pytest.fixture
def tagged() -> Iterator[None]:
    """A head node and an endpoint of two clusters."""
    tags = ec2_backends[ACCOUNT_ID]["us-east-1"].tags
    own = {"i-1": "GpuCluster", "eice-1": "GpuCluster", "i-2": "Other", "eice-2": "Other"}
    for each, cluster in own.items():
        tags[each] = {"gpucluster:cluster": cluster}
    yield
    for each in own:
        del tags[each]


def push(instance: str, user: str) -> Call:
    body = {"InstanceId": instance, "InstanceOSUser": user, "SSHPublicKey": "ssh-ed25519 AAAA"}
    return Call("ec2-instance-connect", "us-east-1", "SendSSHPublicKey", "", {}, json.dumps(body).encode())


def open_tunnel(endpoint: str, port: str = "22") -> Call:
    form = {"instanceConnectEndpointId": endpoint, "remotePort": port}
    return Call("ec2-instance-connect", "us-east-1", "OpenTunnel", "", form)


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        (push("i-1", "ada"), True),
        (push("i-1", "ubuntu"), False),
        (push("i-1", "ben"), False),
        (push("i-2", "ada"), False),
        (open_tunnel("eice-1"), True),
        (open_tunnel("eice-1", "3389"), False),
        (open_tunnel("eice-2"), False),
        (open_tunnel("eice-3"), False),
        (push("i-3", "ada"), False),
    ],
)
@pytest.mark.parametrize(("policy", "account"), [("user.json", "ada"), ("jobs.json", "ubuntu")])
def test_a_policy_opens_one_account_of_one_cluster(
    tagged: None, call: Call, allowed: bool, policy: str, account: str
) -> None:
    """`i-3` and `eice-3` have no tag."""
    body = call.body.replace(b'"ubuntu"', b'"x"').replace(b'"ada"', f'"{account}"'.encode())
    document = json.loads((ROOT / "docs" / "policies" / policy).read_text())
    (check,) = instance_connect(Pace(lambda profile: []), replace(call, body=body))
    assert (evaluate([document], check.action, check.resource, check.keys) == ALLOWED) is allowed


def allows(policy: str, action: str, resource: str, **keys: str) -> bool:
    document = json.loads((ROOT / "docs" / "policies" / policy).read_text())
    given = {key.replace("__", ":"): (value,) for key, value in keys.items()}
    return evaluate([document], action, resource, given) == ALLOWED


OWN, OTHER, NONE = (
    {"aws__ResourceTag/gpucluster:cluster": "GpuCluster"},
    {"aws__ResourceTag/gpucluster:cluster": "Other"},
    {"aws__ResourceTag/Name": "GpuCluster"},
)
EC2, SSM, STACK, IAM = (
    "arn:aws:ec2:r:1",
    "arn:aws:ssm:r:1:parameter",
    "arn:aws:cloudformation:r:1:stack",
    "arn:aws:iam::1",
)
ACCOUNTS = {"aws__ResourceAccount": "1", "aws__PrincipalAccount": "1"}
STOP = f"{IAM}:policy/GpuCluster-BudgetStopLaunchesPolicy1A2B-XYZ"
DELETED = {
    "route53__ChangeResourceRecordSetsActions": "DELETE",
    "route53__ChangeResourceRecordSetsRecordTypes": "A",
    "route53__ChangeResourceRecordSetsNormalizedRecordNames": "train-1.gpucluster.internal",
}


@pytest.mark.parametrize("policy", ["jobs.json", "user.json"])
@pytest.mark.parametrize(
    ("action", "resource", "keys"),
    [
        ("cloudformation:DescribeStacks", f"{STACK}/Other/1", {}),
        ("cloudformation:DescribeStacks", f"{STACK}/GpuCluster2/1", {}),
        ("cloudformation:DescribeStacks", "*", {}),
        ("ssm:GetParameter", f"{SSM}/gpucluster/GpuCluster/bundle", {}),
        ("ssm:GetParameter", f"{SSM}/gpucluster/GpuCluster/jobs", {}),
        ("ssm:GetParameter", f"{SSM}/gpucluster/Other/host-key", {}),
        ("ssm:GetParameter", f"{SSM}/database/password", {}),
        ("ec2:TerminateInstances", f"{EC2}:instance/i-1", OWN),
        ("sts:AssumeRole", f"{IAM}:role/cdk-hnb659fds-deploy-role-1-r", ACCOUNTS),
        ("ec2-instance-connect:OpenTunnel", f"{EC2}:instance-connect-endpoint/eice-1", OWN),  # without a port
    ],
)
def test_who_submits_jobs_reads_one_cluster_and_changes_nothing(
    policy: str, action: str, resource: str, keys: dict[str, str]
) -> None:
    assert not allows(policy, action, resource, **keys)


@pytest.mark.parametrize("policy", ["jobs.json", "user.json"])
def test_who_submits_jobs_reads_what_the_command_line_asks_for(policy: str) -> None:
    assert allows(policy, "cloudformation:DescribeStacks", f"{STACK}/GpuCluster/1")
    assert allows(policy, "ssm:GetParameter", f"{SSM}/gpucluster/GpuCluster/host-key")
    assert allows(policy, "ssm:GetParameter", f"{SSM}/gpucluster/GpuCluster/head")
    assert allows(policy, "ec2:DescribeInstances", "*")


@pytest.mark.parametrize(
    ("action", "resource", "given", "refused"),
    [
        *(
            (f"ec2:{action}", f"{EC2}:instance/i-1", OWN, [NONE, {}])
            for action in (
                *("ModifyInstanceAttribute", "StartInstances", "StopInstances", "TerminateInstances"),
                *("GetConsoleOutput", "CreateImage"),
            )
        ),
        ("rds:ModifyDBInstance", "arn:aws:rds:r:1:db:d", OWN, [NONE, {}]),
        ("cloudformation:ContinueUpdateRollback", f"{STACK}/x/1", OWN, [NONE, {}]),
        ("cloudformation:UpdateTerminationProtection", f"{STACK}/x/1", OWN, [NONE, {}]),
        ("ec2-instance-connect:SendSSHPublicKey", f"{EC2}:instance/i-1", OWN, [NONE, {}]),
        (
            "ec2-instance-connect:OpenTunnel",
            f"{EC2}:instance-connect-endpoint/eice-1",
            OWN | {"ec2-instance-connect__remotePort": "22"},
            [OWN | {"ec2-instance-connect__remotePort": "3306"}, {"ec2-instance-connect__remotePort": "22"}, OWN],
        ),
        (
            "ec2:CreateTags",
            "arn:aws:ec2:r::image/ami-1",
            {"ec2__CreateAction": "CreateImage"},
            [{}, OWN, {"ec2__CreateAction": "RunInstances"}],
        ),
        (
            "ec2:CreateImage",
            "arn:aws:ec2:r::snapshot/*",
            {"aws__RequestTag/gpucluster:recipe": "r"},
            [{}, {"aws__RequestTag/Name": "r"}],
        ),
        (
            "iam:DetachRolePolicy",
            f"{IAM}:role/GpuCluster-HeadRole1",
            {"iam__PolicyARN": STOP},
            [
                {},
                {"iam__PolicyARN": "arn:aws:iam::1:policy/Guardrail"},
                {"iam__PolicyARN": "arn:aws:iam::aws:policy/X"},
            ],
        ),
        (
            "route53:ChangeResourceRecordSets",
            "arn:aws:route53:::hostedzone/Z",
            DELETED,
            [
                DELETED | {"route53__ChangeResourceRecordSetsActions": "UPSERT"},
                DELETED | {"route53__ChangeResourceRecordSetsRecordTypes": "MX"},
                DELETED | {"route53__ChangeResourceRecordSetsNormalizedRecordNames": "www.example.com"},
            ],
        ),
        (
            "sts:AssumeRole",
            f"{IAM}:role/cdk-hnb659fds-deploy-role-1-r",
            ACCOUNTS,
            [{}, {"aws__ResourceAccount": "2", "aws__PrincipalAccount": "1"}],
        ),
    ],
)
def test_who_deploys_changes_only_what_is_gpuclusters(
    action: str, resource: str, given: dict[str, str], refused: list[dict[str, str]]
) -> None:
    """Which action has which condition: https://docs.aws.amazon.com/service-authorization/latest/reference/, pages of
    Amazon EC2, Amazon RDS, AWS CloudFormation, AWS IAM, Amazon Route 53 and AWS STS. aws:ResourceAccount is a global
    key, and AssumeRole is not among the actions without it:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html. A variable cannot be the
    account in a Resource: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html."""
    assert allows("deployer.json", action, resource, **given)
    for keys in refused:
        assert not allows("deployer.json", action, resource, **keys)


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("ec2:CreateTags", f"{EC2}:instance/i-1"),
        ("ssm:GetParameter", f"{SSM}/database/password"),
        ("ssm:GetParameter", f"{SSM}/gpucluster/GpuCluster/bundle"),
        ("s3:GetObject", "arn:aws:s3:::my-bucket/key"),
        ("ec2:DescribeInstanceAttribute", f"{EC2}:instance/i-1"),  # user data of any instance
        ("ec2:DescribeLaunchTemplateVersions", "*"),
        ("iam:ListEntitiesForPolicy", f"{IAM}:policy/Guardrail"),
        ("budgets:ExecuteBudgetAction", "arn:aws:budgets::1:budget/company/action/1"),
        ("sts:AssumeRole", f"{IAM}:role/cdk-hnb659fds-cfn-exec-role-1-r"),
        ("sts:AssumeRole", f"{IAM}:role/cdk-nag-admin"),
    ],
)
def test_who_deploys_never_needs(action: str, resource: str) -> None:
    assert not allows("deployer.json", action, resource, **ACCOUNTS, **OWN)


@pytest.mark.parametrize("policy", ["deployer.json", "jobs.json", "user.json"])
def test_a_policy_fits_into_a_managed_policy(policy: str) -> None:
    """6,144 characters without white space:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html."""
    assert len("".join((ROOT / "docs" / "policies" / policy).read_text().split())) <= 6144


@pytest.mark.parametrize(("partition", "region"), [("aws", "eu-west-1"), ("aws-cn", "cn-north-1")])
@pytest.mark.parametrize(
    ("policy", "action", "resource"),
    [
        ("deployer.json", "sts:AssumeRole", "iam::1:role/cdk-hnb659fds-deploy-role-1-R"),
        ("jobs.json", "ssm:GetParameter", "ssm:R:1:parameter/gpucluster/GpuCluster/host-key"),
        ("user.json", "ssm:GetParameter", "ssm:R:1:parameter/gpucluster/GpuCluster/host-key"),
    ],
)
def test_the_policies_fit_every_partition(partition: str, region: str, policy: str, action: str, resource: str) -> None:
    """China refuses `arn:aws:` (kubernetes-sigs/aws-load-balancer-controller issue 1557). `arn:*:` is allowed: CDK
    Pipelines' own roles have it (aws-cdk, packages/aws-cdk-lib/pipelines, `arn:*:iam::`)."""
    assert allows(policy, action, f"arn:{partition}:{resource.replace('R', region)}", **ACCOUNTS)


@pytest.mark.parametrize("action", ["kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"])
def test_the_deployer_may_start_a_head_whose_disks_have_a_key(action: str) -> None:
    """https://repost.aws/knowledge-center/kms-iam-ec2-permission."""
    key = "arn:aws-cn:kms:cn-north-1:1:key/1"
    grant = {"kms__GrantIsForAWSResource": "true"}
    assert allows("deployer.json", action, key, kms__ViaService="ec2.cn-north-1.amazonaws.com", **grant)
    assert not allows("deployer.json", action, key, kms__ViaService="s3.cn-north-1.amazonaws.com", **grant)
    assert not allows("deployer.json", action, key)
    assert not allows("deployer.json", "kms:CreateGrant", key, kms__ViaService="ec2.cn-north-1.amazonaws.com")
