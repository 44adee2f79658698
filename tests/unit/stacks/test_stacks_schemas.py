"""Every property name and value of the examples' templates, against AWS's own schemas and service models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_stacks_snapshot import EXAMPLES, VARIANTS

from tests import aws_models

Template = dict[str, Any]
FILES = [*EXAMPLES, *VARIANTS]


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.stem)
def test_aws_knows_every_name_and_value(template_of: Callable[[str], Template], example: Path) -> None:
    assert list(aws_models.faults(template_of(example.read_text()))) == []


@pytest.mark.parametrize("example", FILES, ids=lambda path: path.stem)
def test_every_type_has_its_call(template_of: Callable[[str], Template], example: Path) -> None:
    used = {resource["Type"] for resource in template_of(example.read_text())["Resources"].values()}
    assert used - set(aws_models.CALLS) - set(aws_models.WITHOUT_A_CALL) == set()


LAUNCH = {
    "Type": "AWS::EC2::LaunchTemplate",
    "Properties": {
        "LaunchTemplateData": {
            "InstanceType": "p4d.24xlarge",
            "InstanceMarketOptions": {"MarketType": "spot"},
            "NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "interface"}],
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        }
    },
}
FSX = {
    "Type": "AWS::FSx::FileSystem",
    "Properties": {
        "FileSystemType": "LUSTRE",
        "SubnetIds": [{"Ref": "Subnet"}],
        "StorageCapacity": 1200,
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
    },
}
ASSOCIATION = {
    "Type": "AWS::FSx::DataRepositoryAssociation",
    "Properties": {
        "FileSystemId": {"Ref": "Fsx"},
        "FileSystemPath": "/data",
        "DataRepositoryPath": "s3://bucket/data",
        "S3": {"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}},
    },
}
PLACEMENT = {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster"}}
LOGS = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/gpucluster/boot", "RetentionInDays": 90}}

SEEDED = [
    (PLACEMENT, "Strategy", "clutser", "is none of"),
    (PLACEMENT, "Strateegy", "cluster", "no property of CloudFormation's AWS::EC2::PlacementGroup"),
    (LAUNCH, "LaunchTemplateData.InstanceType", "p4d.24xlarg", "is none of"),
    (LAUNCH, "LaunchTemplateData.InstanceMarketOptions.MarketType", "spott", "is none of"),
    (LAUNCH, "LaunchTemplateData.MetadataOptions.HttpTokens", "always", "is none of"),
    (LAUNCH, "LaunchTemplateData.NetworkInterfaces.0.InterfaceType", "eaf", "is none of"),
    (LAUNCH, "LaunchTemplateData.NetworkInterfaces.0.DeviceIndx", 1, "no property of CloudFormation's"),
    (FSX, "LustreConfiguration.DeploymentType", "PERSISTENT_3", "is none of"),
    (FSX, "LustreConfiguration.PerUnitStorageThroughput", 3000, "is outside 12 to 1000"),
    (FSX, "LustreConfiguration.AutomaticBackupRetentionDays", 100, "is outside 0 to 90"),
    (FSX, "LustreConfiguration.WeeklyMaintenanceStartTime", "8:00:00", "does not match"),
    (ASSOCIATION, "S3.AutoImportPolicy.Events.0", "RENAMED", "is none of"),
    (ASSOCIATION, "S3.AutoImportPolicy.Events", ["NEW"] * 4, "4 entries is outside"),
    (LOGS, "RetentionInDays", 91, "is none of"),
    (LOGS, "LogGroupName", "a b", "does not match"),
]


@pytest.mark.parametrize("resource", [LAUNCH, FSX, ASSOCIATION, PLACEMENT, LOGS], ids=lambda each: each["Type"])
def test_the_template_without_seeded_faults_is_correct(resource: dict[str, Any]) -> None:
    assert list(aws_models.faults({"Resources": {"It": resource}})) == []


@pytest.mark.parametrize(("resource", "path", "value", "fault"), SEEDED)
def test_each_kind_of_seeded_fault_is_found(resource: dict[str, Any], path: str, value: Any, fault: str) -> None:
    wrong = copy.deepcopy(resource)
    node: Any = wrong["Properties"]
    *way, last = path.split(".")
    for part in way:
        node = node[int(part) if part.isdigit() else part]
    node[int(last) if last.isdigit() else last] = value
    found = list(aws_models.faults({"Resources": {"It": wrong}}))
    assert any(fault in each for each in found), found
