"""docs/policies against the calls that the code of the user's machine makes."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((ROOT / "gpucluster").rglob("*.py"))
PREFIXES = {"service-quotas": "servicequotas"}
# IAM's names where they are not the operation's: Service Authorization Reference, Amazon S3.
ACTIONS = {"s3:HeadBucket": "s3:ListBucket"}
# The services of `Deployment.clients` and of the online checks.
SERVICES = (
    *("budgets", "ce", "cloudformation", "ec2", "ec2-instance-connect", "fsx", "iam", "kms", "rds", "route53", "s3"),
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


@pytest.mark.parametrize("policy", ["deployer.json", "jobs.json"])
def test_no_policy_has_an_action_without_a_call(policy: str) -> None:
    # CDK assumes roles; the tunnel is opened by a signed URL; an image is tagged as it is made; waiters ask for states.
    others = {"sts:AssumeRole", "ec2-instance-connect:OpenTunnel", "ec2:CreateTags", "budgets:DescribeBudgetAction"}
    idle = {pattern for pattern in granted(policy) if not any(fnmatchcase(action, pattern) for action in actions())}
    assert idle <= others


def test_the_submitters_policy_allows_reaching_the_head() -> None:
    reach = {"ec2-instance-connect:OpenTunnel", "ec2-instance-connect:SendSSHPublicKey", "ssm:GetParameter"}
    assert reach | {"cloudformation:DescribeStacks", "ec2:DescribeInstances"} <= granted("jobs.json")
