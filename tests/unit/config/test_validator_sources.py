"""Validators' sources exist: properties in CloudFormation's schemas, operations in botocore's models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.loaders import Loader
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from gpucluster.config.checks import every

PROPERTY = re.compile(r"(AWS::\w+::\w+)(?: ([A-Z]\w*(?:\.\w+)*))?")
OPERATION = re.compile(r"of (EC2|FSx|SNS|KMS|Budgets|IAM|Route 53|SSM) ([A-Z]\w+)")
MODELS = {
    "EC2": "ec2",
    "FSx": "fsx",
    "SNS": "sns",
    "KMS": "kms",
    "Budgets": "budgets",
    "IAM": "iam",
    "Route 53": "route53",
    "SSM": "ssm",
}

PROPERTIES = sorted({found for each in every().values() for found in PROPERTY.findall(each.source)})
OPERATIONS = sorted({found for each in every().values() for found in OPERATION.findall(each.source)})


def names(schema: Any) -> Iterator[str]:
    """Names of all properties, at any depth, and of the definitions that contain them."""
    if isinstance(schema, dict):
        for key in ("properties", "definitions"):
            yield from schema.get(key, {})
        for inner in schema.values():
            yield from names(inner)
    if isinstance(schema, list):
        for inner in schema:
            yield from names(inner)


@pytest.mark.parametrize(("type_", "path"), PROPERTIES)
def test_cloudformation_has_the_property(type_: str, path: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", type_).schema
    assert set(filter(None, path.split("."))) <= set(names(schema)), path


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
def test_the_service_has_the_operation(service: str, operation: str) -> None:
    assert operation in Loader().load_service_model(MODELS[service], "service-2")["operations"]


def test_a_property_that_is_not_there_is_noticed() -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", "AWS::EC2::VPC").schema
    assert "CidrBlock" in set(names(schema))
    assert "CidrBlok" not in set(names(schema))
    assert len(PROPERTIES) > 15 and len(OPERATIONS) > 8
