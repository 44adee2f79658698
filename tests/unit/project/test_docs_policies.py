"""docs/policies against the calls that the code of the user's machine makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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
SOURCES = sorted((ROOT / "gpucluster").rglob("*.py"))
PREFIXES = {"service-quotas": "servicequotas"}
# IAM's names where they are not the operation's: Service Authorization Reference, Amazon S3.
ACTIONS = {"s3:HeadBucket": "s3:ListBucket", "budgets:DescribeBudgets": "budgets:ViewBudget"}
# The services of `Deployment.clients` and of the online checks.
SERVICES = (
    *(
        "budgets",
        "ce",
        "cloudformation",
        "cloudwatch",
        "ec2",
        "ec2-instance-connect",
        "fsx",
        "iam",
        "kms",
        "rds",
        "route53",
        "s3",
    ),
    *("service-quotas", "ssm", "sts"),
)
NAMED = re.compile(r"""\("([a-z0-9-]+)",\s*"([a-z]+_[a-z0-9_]+)\"""")
ON_CLIENT = re.compile(r"""\b([a-z0-9]+|client\("[a-z0-9-]+"\))\s*\.([a-z]+_[a-z0-9_]+)\(""")
PAGED = re.compile(r"""\b([a-z0-9]+)\s*\.get_paginator\("([a-z_]+)"\)""")


@cache
def operations(service: str) -> dict[str, str]:
    model = botocore.session.get_session().get_service_model(service)
    return {xform_name(name): name for name in model.operation_names}


def actions() -> set[str]:
    found = set()
    for path in SOURCES:
        text = path.read_text()
        calls = [*NAMED.findall(text), *ON_CLIENT.findall(text), *PAGED.findall(text)]
        for service, method in calls:
            name = service.removeprefix('client("').removesuffix('")')
            if name in SERVICES and method in operations(name):
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
    ],
)
def test_a_users_policy_opens_one_account_of_one_cluster(tagged: None, call: Call, allowed: bool) -> None:
    policy = json.loads((ROOT / "docs" / "policies" / "user.json").read_text())
    (check,) = instance_connect(Pace(lambda profile: []), call)
    assert (evaluate([policy], check.action, check.resource, check.keys) == ALLOWED) is allowed


def allows(policy: str, action: str, resource: str, **keys: str) -> bool:
    document = json.loads((ROOT / "docs" / "policies" / policy).read_text())
    given = {key.replace("__", ":"): (value,) for key, value in keys.items()}
    return evaluate([document], action, resource, given) == ALLOWED


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
    assert allows(policy, action, f"arn:{partition}:{resource.replace('R', region)}")


@pytest.mark.parametrize("action", ["kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"])
def test_the_deployer_may_start_a_head_whose_disks_have_a_key(action: str) -> None:
    """https://repost.aws/knowledge-center/kms-iam-ec2-permission."""
    key = "arn:aws-cn:kms:cn-north-1:1:key/1"
    grant = {"kms__GrantIsForAWSResource": "true"}
    assert allows("deployer.json", action, key, kms__ViaService="ec2.cn-north-1.amazonaws.com", **grant)
    assert not allows("deployer.json", action, key, kms__ViaService="s3.cn-north-1.amazonaws.com", **grant)
    assert not allows("deployer.json", action, key)
    assert not allows("deployer.json", "kms:CreateGrant", key, kms__ViaService="ec2.cn-north-1.amazonaws.com")
