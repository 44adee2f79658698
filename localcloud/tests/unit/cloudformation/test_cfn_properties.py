"""Properties against the schemas of CloudFormation's registry."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.cloudformation import properties, schemas
from localcloud.cloudformation.intrinsics import UNKNOWN

GROUP, INSTANCE, FSX = "AWS::EC2::SecurityGroup", "AWS::EC2::Instance", "AWS::FSx::FileSystem"
VOLUME, BUCKET, LOGS = "AWS::EC2::Volume", "AWS::S3::Bucket", "AWS::Logs::LogGroup"

GROUPED = {"GroupDescription": "x"}

WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        GROUP,
        GROUPED | {"SecurityGroupIngress": "all"},
        "#/SecurityGroupIngress: expected type: JSONArray, found: String",
    ),
    (GROUP, {}, "#: required key [GroupDescription] not found"),
    (GROUP, GROUPED | {"SecurityGroupIngress": [{}]}, "#/SecurityGroupIngress/0: required key [IpProtocol] not found"),
    (GROUP, GROUPED | {"GroupId": "sg-1"}, "#: extraneous key [GroupId] is not permitted"),
    (INSTANCE, {"InstanceMarketOptions": {}}, "#: extraneous key [InstanceMarketOptions] is not permitted"),
    (INSTANCE, {"EbsOptimized": "yes"}, "#/EbsOptimized: expected type: Boolean, found: String"),
    (FSX, {"SubnetIds": "subnet-1"}, "#/SubnetIds: expected type: JSONArray, found: String"),
    (VOLUME, {"AvailabilityZone": "us-east-1a", "Size": "big"}, "#/Size: expected type: Integer, found: String"),
    (BUCKET, {"VersioningConfiguration": {"Status": "On"}}, "/Status: On is not a valid enum value"),
    (BUCKET, {"BucketName": "Ab"}, "#/BucketName: string [Ab] does not match pattern"),
    (LOGS, {"RetentionInDays": 4}, "#/RetentionInDays: 4 is not a valid enum value"),
    (LOGS, {"LogGroupName": "x" * 513}, "#/LogGroupName: expected maxLength: 512, actual: 513"),
]


@pytest.mark.parametrize(("resource_type", "given", "said"), WRONG)
def test_schema_violations_have_the_validators_messages(resource_type: str, given: dict[str, Any], said: str) -> None:
    assert any(said in each for each in properties.violations(resource_type, "us-east-1", given))


RIGHT: list[tuple[str, dict[str, Any]]] = [
    (VOLUME, {"AvailabilityZone": "us-east-1a", "Size": "8", "Encrypted": "true"}),
    (VOLUME, {"AvailabilityZone": UNKNOWN, "Size": 8.0, "Encrypted": True}),
    (
        GROUP,
        {"GroupDescription": "x", "SecurityGroupIngress": [{"IpProtocol": -1, "CidrIp": UNKNOWN}], "VpcId": UNKNOWN},
    ),
    (FSX, {"FileSystemType": "LUSTRE", "SubnetIds": UNKNOWN, "StorageCapacity": "{{resolve:ssm:size}}"}),
    (BUCKET, {"BucketName": "{{resolve:ssm:Name}}"}),
    ("AWS::Quantum::Computer", {"Anything": 1}),
]


@pytest.mark.parametrize(("resource_type", "given"), RIGHT)
def test_valid_values_pass_also_as_text_or_unknown(resource_type: str, given: dict[str, Any]) -> None:
    assert properties.violations(resource_type, "us-east-1", given) == []


@pytest.mark.parametrize(
    ("resource_type", "attribute", "has"),
    [
        ("AWS::SSM::Parameter", "Value", True),
        ("AWS::SSM::Parameter", "Color", False),
        ("AWS::RDS::DBInstance", "Endpoint.Address", True),
        ("AWS::RDS::DBInstance", "Endpoint.Colour", False),
        (INSTANCE, "PrivateIp", True),
        ("AWS::CloudFormation::WaitCondition", "Data", True),
    ],
)
def test_attributes_are_those_of_the_type(resource_type: str, attribute: str, has: bool) -> None:
    schema = schemas.of(resource_type)
    assert schema is not None
    assert schemas.has_attribute(schema, attribute) is has


def test_types_are_those_of_the_region() -> None:
    assert schemas.is_known(INSTANCE, "eu-west-1") and schemas.is_known(INSTANCE, "xx-nowhere-1")
    assert not schemas.is_known("AWS::EC2::Nonsense", "eu-west-1")
    assert schemas.is_known("Custom::Anything") and schemas.is_known("Mine::Own::Type")
