"""Properties converted to API inputs by botocore's models, and the handlers' requests."""

from __future__ import annotations

import base64
from typing import Any

import boto3
import pytest

from localcloud.cloudformation import shapes
from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.resources import handler_for, supported_types
from localcloud.cloudformation.resources.compute import run_request
from localcloud.cloudformation.resources.registry import Call
from localcloud.cloudformation.resources.security_groups import permission


def _client(service: str) -> Any:
    return boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def _call(**tags: str) -> Call:
    return Call(
        clients=lambda service, region: _client(service),
        region="us-east-1",
        account_id="123456789012",
        stack_name="Stack",
        stack_id="arn",
        logical_id="Server",
        tags=tags,
    )


@pytest.mark.parametrize(
    ("service", "method", "given", "expected"),
    [
        ("ec2", "create_volume", {"Size": "8", "Encrypted": "true", "Iops": None}, {"Size": 8, "Encrypted": True}),
        ("ec2", "create_route", {"RouteTableId": "rtb-1"}, {"RouteTableId": "rtb-1"}),
        (
            "ecr",
            "create_repository",
            {"RepositoryName": "r", "ImageScanningConfiguration": {"ScanOnPush": "true"}},
            {"repositoryName": "r", "imageScanningConfiguration": {"scanOnPush": True}},
        ),
        ("iam", "put_role_policy", {"PolicyDocument": {"a": [1]}}, {"PolicyDocument": '{"a": [1]}'}),
        ("cloudwatch", "put_metric_alarm", {"Threshold": "5"}, {"Threshold": 5.0}),
    ],
)
def test_fitting(service: str, method: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert shapes.fit(_client(service), method, given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Sise": 8}, "/Sise extraneous key is not permitted"),
        ({"Size": "eight"}, "/Size expected integer, got 'eight'"),
        ({"TagSpecifications": [{"Tags": [{"Kee": "a"}]}]}, "/TagSpecifications/0/Tags/0/Kee extraneous"),
    ],
)
def test_properties_that_do_not_fit_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ResourceError, match=message):
        shapes.fit(_client("ec2"), "create_volume", given)


def test_an_instances_request() -> None:
    properties = {
        "ImageId": "ami-1",
        "IamInstanceProfile": "profile",
        "UserData": base64.b64encode(b"#!/bin/sh\n").decode(),
        "PlacementGroupName": "group",
        "Monitoring": "true",
        "LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "3"},
        "NetworkInterfaces": [{"DeviceIndex": "0", "GroupSet": ["sg-1"], "SubnetId": "subnet-1"}],
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": "8"}}],
        "Tags": [{"Key": "Name", "Value": "web"}],
    }
    fitted = shapes.fit(_client("ec2"), "run_instances", run_request(_call(owner="me"), properties))
    assert fitted == {
        "ImageId": "ami-1",
        "MinCount": 1,
        "MaxCount": 1,
        "IamInstanceProfile": {"Name": "profile"},
        "UserData": "#!/bin/sh\n",
        "Placement": {"GroupName": "group"},
        "Monitoring": {"Enabled": True},
        "LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "3"},
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"], "SubnetId": "subnet-1"}],
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8}}],
        "TagSpecifications": [
            {
                "ResourceType": "instance",
                "Tags": [{"Key": "owner", "Value": "me"}, {"Key": "Name", "Value": "web"}],
            }
        ],
    }


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            {"IpProtocol": "tcp", "FromPort": "22", "ToPort": 22, "CidrIp": "10.0.0.0/8", "Description": "ssh"},
            {
                "IpProtocol": "tcp",
                "FromPort": 22,
                "ToPort": 22,
                "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "ssh"}],
            },
        ),
        (
            {"IpProtocol": "-1", "FromPort": 0, "SourceSecurityGroupId": "sg-1"},
            {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]},
        ),
        (
            {"IpProtocol": "-1", "DestinationPrefixListId": "pl-1"},
            {"IpProtocol": "-1", "PrefixListIds": [{"PrefixListId": "pl-1"}]},
        ),
    ],
)
def test_security_group_rules(rule: dict[str, Any], expected: dict[str, Any]) -> None:
    assert permission(rule) == expected


def test_generated_names_contain_stack_and_resource_and_fit_the_limit() -> None:
    names = {_call().name(longest) for longest in (32, 64, 128)}
    assert all(name.startswith("Stack-Server-") for name in names)
    assert len(_call().name(20)) <= 20
    assert _call().name(63, lower=True).islower()


@pytest.mark.parametrize(
    ("resource_type", "changed", "replaces"),
    [
        ("AWS::EC2::Instance", {"Tags", "SecurityGroupIds"}, False),
        ("AWS::EC2::Instance", {"SubnetId"}, True),
        ("AWS::EC2::LaunchTemplate", {"LaunchTemplateData"}, False),
        ("AWS::EC2::LaunchTemplate", {"LaunchTemplateName"}, True),
        ("AWS::SSM::Parameter", {"Value"}, False),
        ("AWS::CloudWatch::Alarm", {"Threshold"}, False),
    ],
)
def test_which_changes_replace(resource_type: str, changed: set[str], replaces: bool) -> None:
    assert handler_for(resource_type).replaces(changed) is replaces


def test_every_type_of_a_gpu_cluster_and_of_cdk_bootstrap_is_supported() -> None:
    bootstrap = {"S3::Bucket", "S3::BucketPolicy", "ECR::Repository", "IAM::Role", "IAM::Policy", "SSM::Parameter"}
    cluster = {"EC2::Instance", "EC2::LaunchTemplate", "EC2::PlacementGroup", "EC2::InstanceConnectEndpoint"}
    storage = {"FSx::FileSystem", "FSx::DataRepositoryAssociation", "EFS::FileSystem", "EC2::Volume"}
    known = {name.removeprefix("AWS::") for name in supported_types()}
    assert bootstrap | cluster | storage <= known
