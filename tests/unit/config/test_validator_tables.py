"""Compares the validators' tables with CloudFormation's schemas and the service models."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import cfnlint.data.schemas.providers as providers
import pytest

from gpucluster.config import regions
from gpucluster.config.checks import budget, head, monitoring, s3_access
from gpucluster.config.storage.fsx import checks as fsx
from gpucluster.config.storage.fsx import links as repositories
from gpucluster.config.storage.fsx import sizes as fsx_sizes
from gpucluster.config.storage.fsx.lustre import TIERS_MBPS_PER_TIB

SCHEMAS = Path(next(iter(providers.__path__)))
REGIONS = sorted(path.stem for path in SCHEMAS.glob("*-*-[0-9].json") if "-iso" not in path.stem)


def types_of(region: str) -> set[str]:
    return set(json.loads((SCHEMAS / f"{region}.json").read_text()))


def schema(type_: str) -> dict[str, Any]:
    name = json.loads((SCHEMAS / "us-east-1.json").read_text())[type_]
    found: dict[str, Any] = json.loads((SCHEMAS.parent / "resources" / f"{name}.json").read_text())
    return found


@cache
def shape(service: str, name: str) -> Any:
    client = boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    return client.meta.service_model.shape_for(name)


def numbers(text: str) -> list[int]:
    return [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", text)]


@pytest.mark.parametrize(
    ("type_", "table"),
    [
        ("AWS::Budgets::Budget", regions.WITHOUT_BUDGETS),
        ("AWS::Budgets::BudgetsAction", regions.WITHOUT_BUDGETS),
        ("AWS::FSx::FileSystem", regions.WITHOUT_FSX),
    ],
)
def test_regions_without_a_type_are_those_of_the_schemas(type_: str, table: frozenset[str]) -> None:
    assert {region for region in REGIONS if type_ not in types_of(region)} == set(table)


@pytest.mark.parametrize("type_", ["AWS::EFS::FileSystem", "AWS::DLM::LifecyclePolicy", "AWS::RDS::DBInstance"])
def test_types_without_a_region_check_exist_in_every_region(type_: str) -> None:
    assert [region for region in REGIONS if type_ not in types_of(region)] == []


def test_days_of_logs_are_those_of_the_schema() -> None:
    enum = schema("AWS::Logs::LogGroup")["properties"]["RetentionInDays"]["enum"]
    assert tuple(enum) == monitoring.LOG_DAYS


def test_an_action_of_a_budget_needs_a_subscriber() -> None:
    found = schema("AWS::Budgets::BudgetsAction")
    assert "Subscribers" in found["required"] and found["properties"]["Subscribers"]["minItems"] == 1
    assert budget.stop_has_email  # the reason for the rule


def test_lustre_is_sold_in_the_tiers_and_steps_that_its_api_names() -> None:
    tiers = shape("fsx", "CreateFileSystemLustreConfiguration").members["PerUnitStorageThroughput"].documentation
    for deployment in ("persistent-1", "persistent-2"):
        plain = re.sub(r"<[^>]+>", "", tiers)
        said = re.search(rf"{deployment.upper().replace('-', '_')} SSD storage: ([\d, ]+)", plain)
        assert said and tuple(numbers(said[1])) == TIERS_MBPS_PER_TIB[deployment]
    capacity = shape("fsx", "CreateFileSystemRequest").members["StorageCapacity"].documentation
    assert "increments of 2400 GiB" in capacity and "increments of 3600 GiB" in capacity
    assert set(fsx_sizes.STEP_GIB.values()) == {2400, 3600}


def test_limits_of_lustre_are_those_of_its_api() -> None:
    configuration = shape("fsx", "CreateFileSystemLustreConfiguration")
    assert configuration.members["AutomaticBackupRetentionDays"].metadata["max"] == fsx.BACKUP_DAYS
    iops = shape("fsx", "CreateFileSystemLustreMetadataConfiguration").members["Iops"]
    assert (iops.metadata["min"], iops.metadata["max"]) == (fsx.METADATA_IOPS[0], fsx.METADATA_IOPS[-1])
    client = boto3.client("fsx", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    link = client.meta.service_model.operation_model("CreateDataRepositoryAssociation").documentation
    assert f"maximum of {repositories.MOST_LINKS} data repository associations" in link


def test_a_volume_keeps_as_many_snapshots_as_the_lifecycle_manager_says() -> None:
    assert shape("dlm", "RetainRule").members["Count"].metadata["max"] == head.MOST_SNAPSHOTS


def test_the_policy_of_jobs_is_as_large_as_it_is_counted(template_of: Any) -> None:
    """Compares the estimate of s3-access-policy-size with the stack's policy for the same entries."""
    from gpucluster.config import loads

    entries = [
        {"uri": f"s3://bucket-{number % 3}/some/prefix/{number}", "access": "read-write" if number % 2 else "read"}
        for number in range(12)
    ]
    partition = {"name": "train", "instance_types": ["g5.12xlarge"], "max_nodes": 4}
    cluster = {"name": "Jobs", "region": "us-east-1", "partitions": [partition], "s3_access": entries}
    text = json.dumps(cluster | {"software": {"cache": "s3://environments/of-all"}})
    policies = [
        json.dumps(found["Properties"]["PolicyDocument"], separators=(",", ":"))
        for found in template_of(text)["Resources"].values()
        if found["Type"] == "AWS::IAM::Policy" and found["Properties"]["Roles"][0]["Ref"].startswith("StorageJobs")
    ]
    joined = '{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":s3:::'
    (policy,) = (each.replace(joined, '"arn:aws:s3:::').replace('"]]}', '"') for each in policies)
    counted = s3_access._policy_characters(loads(text))
    assert 0.9 * len(policy) <= counted <= 1.2 * len(policy), (counted, policy)
