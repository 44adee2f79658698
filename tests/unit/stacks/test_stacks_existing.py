"""File systems that exist already: nothing of theirs is made, and the nodes learn where they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from test_stacks_roles import flat

Template = dict[str, Any]
TemplateOf = Callable[[str], Template]

CLUSTER = """
name: Moved
region: us-east-1
availability_zone: us-east-1a
network: {vpc_id: vpc-11111111, subnet_id: subnet-11111111}
software: {image: ami-0123456789abcdef0}
partitions:
  - {name: train, instance_types: [p4d.24xlarge], max_nodes: 4}
"""
STORAGE = """
storage:
  - {mount: /data, type: fsx-lustre, file_system_id: fs-0123456789abcdef0}
  - {mount: /shared, type: efs, file_system_id: fs-0123456789abcdef1}
"""


def parameter(template: Template, name: str) -> dict[str, Any]:
    values = (each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::SSM::Parameter")
    (found,) = [each["Value"] for each in values if each["Name"] == f"/gpucluster/Moved/{name}"]
    value: dict[str, Any] = json.loads(flat(found))
    return value


def test_only_parameters_and_a_permission_are_added(template_of: TemplateOf) -> None:
    before, after = template_of(CLUSTER)["Resources"], template_of(CLUSTER + STORAGE)["Resources"]
    added = {name: each["Type"] for name, each in after.items() if name not in before}
    made = [each for each in added.values() if not each.startswith("AWS::CloudFormation::")]
    assert made == ["AWS::SSM::Parameter"] * 2, "no rule of a security group, no file system"


def test_nodes_know_efs_by_name_and_lustre_by_its_id(template_of: TemplateOf) -> None:
    template = template_of(CLUSTER + STORAGE)
    assert parameter(template, "storage/data") == {
        "type": "fsx-lustre", "mount": "/data", "file_system_id": "fs-0123456789abcdef0",
    }  # fmt: skip
    efs = parameter(template, "storage/shared")
    assert efs["dns_name"] == "fs-0123456789abcdef1.efs.us-east-1.${AWS::URLSuffix}"


def may_ask_fsx(template: Template) -> dict[str, list[str]]:
    """The roles, by their logical ids without CDK's hash, and their actions of FSx."""
    found: dict[str, list[str]] = {}
    for each in template["Resources"].values():
        if each["Type"] == "AWS::IAM::Policy":
            role = each["Properties"]["Roles"][0]["Ref"].rstrip("0123456789ABCDEF")
            actions = [
                action
                for statement in each["Properties"]["PolicyDocument"]["Statement"]
                for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
            ]
            found.setdefault(role, []).extend(each for each in actions if each.startswith("fsx:"))
    return {role: sorted(set(actions)) for role, actions in found.items() if actions}


SYSTEMS = ["fsx:DescribeFileSystems"]


def test_the_head_node_asks_fsx_and_all_nodes_do_for_home(template_of: TemplateOf) -> None:
    assert may_ask_fsx(template_of(CLUSTER + STORAGE)) == {"HeadRole": SYSTEMS}
    home = STORAGE.replace("/data", "/home")
    assert may_ask_fsx(template_of(CLUSTER + home)) == {"ComputeRole": SYSTEMS, "HeadRole": SYSTEMS}
    assert may_ask_fsx(template_of(CLUSTER)) == {}


@pytest.mark.parametrize(
    ("type_", "actions"),
    [
        ("fsx-openzfs", ["fsx:DescribeFileSystems", "fsx:DescribeVolumes"]),
        ("fsx-ontap", ["fsx:DescribeStorageVirtualMachines", "fsx:DescribeVolumes"]),
    ],
)
def test_it_may_ask_for_what_an_address_takes(template_of: TemplateOf, type_: str, actions: list[str]) -> None:
    entry = f"storage: [{{mount: /zfs, type: {type_}, volume_id: fsvol-0123456789abcdef0}}]\n"
    assert may_ask_fsx(template_of(CLUSTER + entry)) == {"HeadRole": actions}


VOLUMES = """
storage:
  - {mount: /disk, type: ebs, gib: 200, volume_type: io2, iops: 1000, on_delete: retain}
  - {mount: /copy, type: ebs, snapshot_id: snap-0123456789abcdef0}
  - {mount: /old, type: ebs, volume_id: vol-0123456789abcdef0}
"""


def test_volumes_are_new_of_a_snapshot_or_named(template_of: TemplateOf) -> None:
    template = template_of(CLUSTER + VOLUMES)
    volumes = {name: each for name, each in template["Resources"].items() if each["Type"] == "AWS::EC2::Volume"}
    (disk,) = (each for name, each in volumes.items() if name.startswith("StorageDisk"))
    (copy,) = (each for name, each in volumes.items() if name.startswith("StorageCopy"))
    assert len(volumes) == 3, "with /home's, and none for /old"
    wanted = {"Size": 200, "VolumeType": "io2", "Iops": 1000, "Encrypted": True, "AvailabilityZone": "us-east-1a"}
    assert wanted.items() <= disk["Properties"].items()
    assert (disk["DeletionPolicy"], disk["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert (copy["Properties"]["SnapshotId"], "Size" in copy["Properties"]) == ("snap-0123456789abcdef0", False)
    assert copy["DeletionPolicy"] == "Snapshot"
    assert parameter(template, "storage/old")["volume_id"] == "vol-0123456789abcdef0"
    assert parameter(template, "storage/disk")["volume_id"].startswith("${StorageDiskVolume")


def test_the_head_node_attaches_volumes_of_the_cluster_and_the_named_one(template_of: TemplateOf) -> None:
    template = template_of(CLUSTER + VOLUMES)
    policies = (each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::IAM::Policy")
    statements = [each for policy in policies for each in policy["PolicyDocument"]["Statement"]]
    attach = {
        flat(each["Resource"]): each.get("Condition") for each in statements if "ec2:AttachVolume" in each["Action"]
    }
    volumes = {name.rpartition(":")[2]: condition for name, condition in attach.items() if ":volume/" in name}
    tagged = {"StringEquals": {"aws:ResourceTag/gpucluster:cluster": "Moved"}}
    assert volumes == {"volume/*": tagged, "volume/vol-0123456789abcdef0": None}
    disk = next(each for name, each in template["Resources"].items() if name.startswith("StorageDiskVolume"))
    assert {"Key": "gpucluster:cluster", "Value": "Moved"} in disk["Properties"]["Tags"]
