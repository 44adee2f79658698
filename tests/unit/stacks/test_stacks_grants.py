"""The user's own policies, role names and security groups in the template."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stacks.role_names import name

Template = dict[str, Any]

CLUSTER = """
name: Vision
region: us-east-1
availability_zone: us-east-1a
network: {vpc_id: vpc-0123456789abcdef0, subnet_id: subnet-0123456789abcdef0}
head_node: {instance_type: m6i.large, security_groups: [sg-00000001]}
partitions:
  - {name: train, instance_types: [p4d.24xlarge], max_nodes: 4, security_groups: [sg-00000002, sg-00000003]}
  - {name: plain, instance_types: [g5.xlarge], max_nodes: 4}
parameter_servers: {security_groups: [sg-00000003]}
security:
  policies:
    head: [arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore]
    nodes: ["arn:aws:iam::123456789012:policy/a", "arn:aws:iam::123456789012:policy/b"]
    jobs: ["arn:aws:iam::123456789012:policy/c"]
  role_prefix: /teams/vision-
budget: {monthly_usd: 900000, email: a@example.com, at_limit: stop-launches}
storage:
  - {mount: /burst, type: fsx-lustre, capacity_gib: 1200, deployment: scratch-2, lifetime: jobs,
     data_repositories: [{path: /in, s3: "s3://my-bucket/in"}]}
"""
NAMES = {
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
}


@pytest.fixture(scope="module")
def template(template_of: Callable[[str], Template]) -> Template:
    return template_of(CLUSTER)


def of_type(template: Template, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for logical_id, each in template["Resources"].items():
        if each["Type"] == kind:
            yield logical_id, each["Properties"]


@pytest.mark.parametrize(
    ("role", "policies"),
    [
        ("HeadRole", ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"]),
        ("ComputeRole", ["arn:aws:iam::123456789012:policy/a", "arn:aws:iam::123456789012:policy/b"]),
        ("StorageJobsRole", ["arn:aws:iam::123456789012:policy/c"]),
    ],
)
def test_each_role_has_its_policies(template: Template, role: str, policies: list[str]) -> None:
    (found,) = [each for id_, each in of_type(template, "AWS::IAM::Role") if id_.startswith(role)]
    assert found["ManagedPolicyArns"] == policies


def test_all_names_in_iam_begin_with_the_prefix(template: Template) -> None:
    found = [(kind, each) for kind in NAMES for _, each in of_type(template, kind)]
    names = [each[NAMES[kind]] for kind, each in found]
    assert len(names) == len(set(names)) >= 6
    assert {each["Path"] for _, each in found} == {"/teams/"}
    assert all(re.fullmatch(r"vision-Vision-[A-Za-z]+-[0-9a-f]{8}", each) and len(each) <= 64 for each in names), names
    # docs/policies/deployer.json: `up` detaches the policy of a budget by a part of its name.
    assert any("BudgetStopLaunchesPolicy" in each for each in names)


def test_another_cluster_or_region_has_other_names() -> None:
    """IAM has no regions. The hash is whole, however long the rest is."""
    parts = ("p" * 20, "c" * 40, "us-east-1", "Storage/" + "M" * 100 + "/HeadPolicy/Resource")
    names = {name(*parts), name(*parts[:2], "eu-west-1", parts[3]), name(parts[0], "c" * 39, *parts[2:])}
    assert len(names) == 3 and {len(each) for each in names} <= set(range(65))
    assert all(re.search("-[0-9a-f]{8}$", each) for each in names)


def test_nodes_have_their_groups_on_every_interface(template: Template) -> None:
    groups = {}
    for _, each in of_type(template, "AWS::EC2::LaunchTemplate"):
        data = each["LaunchTemplateData"]
        ours, *own = {json.dumps(nic["Groups"][1:]) for nic in data["NetworkInterfaces"]}
        assert not own and all("GroupId" in json.dumps(nic["Groups"][0]) for nic in data["NetworkInterfaces"])
        groups[data["InstanceType"]] = json.loads(ours)
    assert groups == {
        "p4d.24xlarge": ["sg-00000002", "sg-00000003"],
        "g5.xlarge": [],
        "m4.16xlarge": ["sg-00000003"],
    }


def test_the_head_has_its_groups_and_may_launch_into_the_others(template: Template) -> None:
    ((_, head),) = of_type(template, "AWS::EC2::Instance")
    (interface,) = head["NetworkInterfaces"]
    assert len(interface["GroupSet"]) == 2 and interface["GroupSet"][1] == "sg-00000001"
    text = json.dumps([each for _, each in of_type(template, "AWS::IAM::Policy")])
    assert [f"security-group/sg-0000000{n}" in text for n in (1, 2, 3)] == [False, True, True]


def test_the_generation_tells_a_head_node_with_other_groups(template_of: Callable[[str], Template]) -> None:
    """Otherwise the new head node would not take over the data volume."""
    parameters = [
        json.dumps([each for _, each in of_type(template_of(text), "AWS::SSM::Parameter") if "/bundle" in each["Name"]])
        for text in (CLUSTER, CLUSTER.replace("sg-00000001", "sg-00000009"))
    ]
    first, second = (re.search(r"head_generation[^0-9a-f]+([0-9a-f]{8})", each) for each in parameters)
    assert first and second and first[1] != second[1]
