"""Every call of a booted run is allowed by the synthesized roles, and no role has an action that no call needs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from role_policies import Grant, grants, of_nodes, without

from tests import recorded_calls
from tests.recorded_calls import Recorded

Template = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
REFERENCE = "examples/reference.yaml"

# Actions that no booted run of the local cloud makes, each with the reason why a role has it.
UNEXERCISED = {
    ("ComputeRole", "sts:AssumeRole"): "nodes take the role of s3_access for their jobs; the recorded run has none",
    ("HeadRole", "sts:AssumeRole"): "the head node takes it for the people who work there",
    ("HeadRole", "ec2:DescribeInstanceTopology"): "only for types whose place EC2 tells; test_topology.py boots them",
    ("ComputeRole", "kms:Decrypt"): "the bundle, in an account whose bootstrap has a KMS key of its own",
    ("HeadRole", "kms:Decrypt"): "the bundle, in an account whose bootstrap has a KMS key of its own",
    ("StorageJobsRole", "s3:ListBucket"): "what users' jobs do with the prefixes that s3_access gives them",
    ("StorageJobsRole", "s3:GetObject"): "what users' jobs do with the prefixes that s3_access gives them",
}


@pytest.fixture(params=["cluster.yaml", REFERENCE])
def any_template(request: pytest.FixtureRequest, template_of: Callable[[str], Template]) -> Template:
    return template_of((ROOT / request.param).read_text())


def of_role(role: str) -> list[Recorded]:
    return [call for call in recorded_calls.read() if call.role == role]


def denied(statements: list[dict[str, Any]], calls: list[Recorded]) -> list[Recorded]:
    return [call for call in calls if not call.allowed([{"Statement": statements}])]


def needless(template: Template) -> list[Grant]:
    """Actions of statements without which every recorded call would still be allowed."""
    roles = of_nodes(template)
    return [
        grant
        for grant in grants(template)
        if (grant.role, grant.action) not in UNEXERCISED
        and not denied(without(roles[grant.role], grant), of_role(grant.role))
    ]


@pytest.mark.parametrize("role", ["HeadRole", "ComputeRole"])
def test_every_recorded_call_is_allowed(any_template: Template, role: str) -> None:
    calls = of_role(role)
    assert calls
    assert denied(of_nodes(any_template)[role], calls) == []


def test_no_action_could_be_taken_from_a_role(template: Template) -> None:
    assert needless(template) == []


def test_no_role_has_an_action_without_a_call_or_a_reason(any_template: Template) -> None:
    had = {(grant.role, grant.action) for grant in grants(any_template)}
    made = {(call.role, call.action) for call in recorded_calls.read()}
    assert had - made - set(UNEXERCISED) == set()


def test_the_reasons_are_for_actions_that_roles_have_and_runs_lack(template_of: Callable[[str], Template]) -> None:
    templates = [template_of((ROOT / path).read_text()) for path in ("cluster.yaml", REFERENCE)]
    had = {(grant.role, grant.action) for template in templates for grant in grants(template)}
    made = {(call.role, call.action) for call in recorded_calls.read()}
    assert set(UNEXERCISED) <= had - made


def test_an_action_too_many_and_one_too_few_are_found(template: Template) -> None:
    changed = copy.deepcopy(template)
    statements = next(
        resource["Properties"]["PolicyDocument"]["Statement"]
        for resource in changed["Resources"].values()
        if resource["Type"] == "AWS::IAM::Policy" and resource["Properties"]["Roles"][0]["Ref"].startswith("HeadRole")
    )
    statements.append({"Effect": "Allow", "Action": "ec2:DeleteVolume", "Resource": "*"})
    assert [grant.action for grant in needless(changed)] == ["ec2:DeleteVolume"]
    (launching,) = [grant for grant in grants(template) if grant.action == "ec2:RunInstances"][:1]
    left = without(of_nodes(template)["HeadRole"], launching)
    assert {call.action for call in denied(left, of_role("HeadRole"))} == {"ec2:RunInstances"}
