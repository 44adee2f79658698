"""The accounting database on RDS, as CloudFormation gets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

import pytest

from stacks.accounting import database_subnets

Template = dict[str, Any]
TemplateOf = Callable[[str], Template]
ON_RDS = """
name: GpuCluster
region: us-east-1
head_node: {on_delete: ON_DELETE, termination_protection: true}
partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]
accounting: rds
"""


def only(template: Template, kind: str) -> dict[str, Any]:
    (found,) = [found for found in template["Resources"].values() if found["Type"] == kind]
    return found


@pytest.fixture
def template(template_of: TemplateOf) -> Template:
    return template_of(ON_RDS.replace("ON_DELETE", "snapshot"))


def test_the_database_is_encrypted_private_and_protected(template: Template) -> None:
    database = only(template, "AWS::RDS::DBInstance")["Properties"]
    assert (database["StorageEncrypted"], database["PubliclyAccessible"]) == (True, False)
    assert database["DeletionProtection"] is True
    assert only(template, "AWS::RDS::DBParameterGroup")["Properties"]["Parameters"]["require_secure_transport"] == "1"


def test_the_password_is_a_reference_and_only_the_head_may_read_it(template: Template) -> None:
    password = json.dumps(only(template, "AWS::RDS::DBInstance")["Properties"]["MasterUserPassword"])
    assert "{{resolve:secretsmanager:" in password
    (secret,) = [
        id_
        for id_, found in template["Resources"].items()
        if found["Type"] == "AWS::SecretsManager::Secret" and f'"{id_}"' in password
    ]
    readers = {
        found["Properties"]["Roles"][0]["Ref"]
        for found in template["Resources"].values()
        if found["Type"] == "AWS::IAM::Policy" and secret in json.dumps(found["Properties"]["PolicyDocument"])
    }
    assert len(readers) == 1
    assert readers.pop().startswith("HeadRole")


def test_only_the_head_reaches_it(template: Template) -> None:
    (group,) = only(template, "AWS::RDS::DBInstance")["Properties"]["VPCSecurityGroups"]
    (rule,) = [
        found["Properties"]
        for found in template["Resources"].values()
        if found["Type"] == "AWS::EC2::SecurityGroupIngress" and found["Properties"]["GroupId"] == group
    ]
    assert (rule["FromPort"], rule["ToPort"]) == (3306, 3306)
    assert "NetworkHead" in json.dumps(rule["SourceSecurityGroupId"])


def test_its_subnets_are_in_two_zones(template: Template) -> None:
    ids = only(template, "AWS::RDS::DBSubnetGroup")["Properties"]["SubnetIds"]
    subnets = [template["Resources"][each["Ref"]]["Properties"] for each in ids]
    assert len({subnet["AvailabilityZone"] for subnet in subnets}) == 2
    assert not any(subnet["MapPublicIpOnLaunch"] for subnet in subnets)


@pytest.mark.parametrize(
    ("on_delete", "policy"), [("delete", "Delete"), ("snapshot", "Snapshot"), ("retain", "Snapshot")]
)
def test_a_snapshot_remains_unless_on_delete_is_delete(template_of: TemplateOf, on_delete: str, policy: str) -> None:
    database = only(template_of(ON_RDS.replace("ON_DELETE", on_delete)), "AWS::RDS::DBInstance")
    assert (database["DeletionPolicy"], database["UpdateReplacePolicy"]) == (policy, "Snapshot")


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.0.0.0/24", "192.168.1.128/25"])
def test_subnets_of_the_database_meet_no_other(cidr: str) -> None:
    network = IPv4Network(cidr)
    public = next(network.subnets(new_prefix=min(network.prefixlen + 4, 28)))
    nodes = list(network.subnets())[1]
    first, second = database_subnets(cidr)
    assert first.prefixlen == second.prefixlen == 28
    for one, other in ((first, second), (first, public), (first, nodes), (second, public), (second, nodes)):
        assert not one.overlaps(other)


def test_accounting_on_the_head_creates_no_database(template_of: TemplateOf) -> None:
    template = template_of(ON_RDS.replace("ON_DELETE", "snapshot").replace("accounting: rds", "accounting: local"))
    assert not [found for found in template["Resources"].values() if found["Type"].startswith("AWS::RDS")]
