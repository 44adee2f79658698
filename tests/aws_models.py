"""Checks a template against what AWS publishes: CloudFormation's resource schemas, and the service APIs' models.

The schemas (from cfn-lint) have every property's name and type, and few of the values. The API models (from botocore)
have the enumerations, ranges and patterns of each create call. A property is looked up in the call that CloudFormation
makes for it; ELSEWHERE lists those that are not in that call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

REGION = "us-east-1"
Template = Mapping[str, Any]

CALLS = {
    "AWS::Budgets::Budget": ("budgets", "CreateBudget"),
    "AWS::Budgets::BudgetsAction": ("budgets", "CreateBudgetAction"),
    "AWS::CloudWatch::Alarm": ("cloudwatch", "PutMetricAlarm"),
    "AWS::CloudWatch::CompositeAlarm": ("cloudwatch", "PutCompositeAlarm"),
    "AWS::CloudWatch::Dashboard": ("cloudwatch", "PutDashboard"),
    "AWS::DLM::LifecyclePolicy": ("dlm", "CreateLifecyclePolicy"),
    "AWS::EC2::EIP": ("ec2", "AllocateAddress"),
    "AWS::EC2::Instance": ("ec2", "RunInstances"),
    "AWS::EC2::InstanceConnectEndpoint": ("ec2", "CreateInstanceConnectEndpoint"),
    "AWS::EC2::LaunchTemplate": ("ec2", "CreateLaunchTemplate"),
    "AWS::EC2::NatGateway": ("ec2", "CreateNatGateway"),
    "AWS::EC2::PlacementGroup": ("ec2", "CreatePlacementGroup"),
    "AWS::EC2::Route": ("ec2", "CreateRoute"),
    "AWS::EC2::RouteTable": ("ec2", "CreateRouteTable"),
    "AWS::EC2::SecurityGroup": ("ec2", "CreateSecurityGroup"),
    "AWS::EC2::SecurityGroupEgress": ("ec2", "AuthorizeSecurityGroupEgress"),
    "AWS::EC2::SecurityGroupIngress": ("ec2", "AuthorizeSecurityGroupIngress"),
    "AWS::EC2::Subnet": ("ec2", "CreateSubnet"),
    "AWS::EC2::SubnetRouteTableAssociation": ("ec2", "AssociateRouteTable"),
    "AWS::EC2::VPC": ("ec2", "CreateVpc"),
    "AWS::EC2::VPCEndpoint": ("ec2", "CreateVpcEndpoint"),
    "AWS::EC2::VPCGatewayAttachment": ("ec2", "AttachInternetGateway"),
    "AWS::EC2::InternetGateway": ("ec2", "CreateInternetGateway"),
    "AWS::EC2::FlowLog": ("ec2", "CreateFlowLogs"),
    "AWS::EC2::Volume": ("ec2", "CreateVolume"),
    "AWS::EC2::VolumeAttachment": ("ec2", "AttachVolume"),
    "AWS::EFS::FileSystem": ("efs", "CreateFileSystem"),
    "AWS::EFS::MountTarget": ("efs", "CreateMountTarget"),
    "AWS::ElasticLoadBalancingV2::Listener": ("elbv2", "CreateListener"),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ("elbv2", "CreateLoadBalancer"),
    "AWS::ElasticLoadBalancingV2::TargetGroup": ("elbv2", "CreateTargetGroup"),
    "AWS::FSx::DataRepositoryAssociation": ("fsx", "CreateDataRepositoryAssociation"),
    "AWS::FSx::FileSystem": ("fsx", "CreateFileSystem"),
    "AWS::IAM::InstanceProfile": ("iam", "CreateInstanceProfile"),
    "AWS::IAM::ManagedPolicy": ("iam", "CreatePolicy"),
    "AWS::IAM::Policy": ("iam", "PutRolePolicy"),
    "AWS::IAM::Role": ("iam", "CreateRole"),
    "AWS::KMS::Key": ("kms", "CreateKey"),
    "AWS::Logs::LogGroup": ("logs", "CreateLogGroup"),
    "AWS::RDS::DBInstance": ("rds", "CreateDBInstance"),
    "AWS::RDS::DBParameterGroup": ("rds", "CreateDBParameterGroup"),
    "AWS::RDS::DBSubnetGroup": ("rds", "CreateDBSubnetGroup"),
    "AWS::Route53::HostedZone": ("route53", "CreateHostedZone"),
    "AWS::S3::Bucket": ("s3", "CreateBucket"),
    "AWS::S3::BucketPolicy": ("s3", "PutBucketPolicy"),
    "AWS::SNS::Subscription": ("sns", "Subscribe"),
    "AWS::SNS::Topic": ("sns", "CreateTopic"),
    "AWS::SNS::TopicPolicy": ("sns", "SetTopicAttributes"),
    "AWS::SSM::Parameter": ("ssm", "PutParameter"),
    "AWS::SecretsManager::Secret": ("secretsmanager", "CreateSecret"),
}
"""The call by which CloudFormation creates a resource of the type."""

WITHOUT_A_CALL = {
    "AWS::CDK::Metadata": "is CDK's own",
    "AWS::CloudFormation::WaitCondition": "is CloudFormation's own",
    "AWS::CloudFormation::WaitConditionHandle": "is CloudFormation's own",
    "AWS::Route53::RecordSet": "is one change of a batch",
    "AWS::SecretsManager::SecretTargetAttachment": "is CloudFormation's own",
}

ELSEWHERE = {
    "AWS::Budgets::BudgetsAction": "ActionThreshold.Type ActionThreshold.Value Subscribers.Type",
    "AWS::EC2::FlowLog": "ResourceId",
    "AWS::EC2::Instance": "AvailabilityZone NetworkInterfaces.GroupSet PropagateTagsToVolumeOnCreation",
    "AWS::EC2::SecurityGroup": "GroupDescription SecurityGroupEgress SecurityGroupIngress",
    "AWS::EC2::SecurityGroupEgress": "Description DestinationSecurityGroupId",
    "AWS::EC2::SecurityGroupIngress": "Description SourceSecurityGroupId",
    "AWS::EC2::Subnet": "MapPublicIpOnLaunch",
    "AWS::EC2::VPC": "EnableDnsHostnames EnableDnsSupport",
    "AWS::EFS::FileSystem": "BackupPolicy FileSystemPolicy FileSystemTags LifecyclePolicies",
    "AWS::ElasticLoadBalancingV2::Listener": "ListenerAttributes",
    "AWS::ElasticLoadBalancingV2::TargetGroup": "TargetGroupAttributes Targets",
    "AWS::IAM::InstanceProfile": "Roles",
    "AWS::IAM::ManagedPolicy": "Roles",
    "AWS::IAM::Policy": "Roles",
    "AWS::IAM::Role": "ManagedPolicyArns",
    "AWS::KMS::Key": "EnableKeyRotation KeyPolicy",
    "AWS::Logs::LogGroup": "RetentionInDays",
    "AWS::RDS::DBInstance": "VPCSecurityGroups",
    "AWS::RDS::DBParameterGroup": "Family Parameters",
    "AWS::Route53::HostedZone": "HostedZoneTags VPCs",
    "AWS::SNS::Topic": "DisplayName KmsMasterKeyId",
    "AWS::SNS::TopicPolicy": "PolicyDocument Topics",
    "AWS::SecretsManager::Secret": "GenerateSecretString",
}
"""Properties that CloudFormation passes in another call, or under another name, such as most types' tags."""

DOCUMENTED = {
    ("AWS::EC2::LaunchTemplate", "LaunchTemplateData.NetworkInterfaces.InterfaceType"): (
        "interface",
        "efa",
        "efa-only",
    ),
}
"""Values that AWS documents and neither of its models has: from CreateLaunchTemplate, EC2 API reference."""


def faults(template: Template) -> Iterator[str]:
    """`<logical id>.<property>: what is wrong`, for every property of every resource."""
    for logical_id, resource in sorted(template["Resources"].items()):
        for fault in (*_schema_faults(resource), *_call_faults(resource)):
            yield f"{logical_id}.{fault}"


def is_decided_later(value: Any) -> bool:
    """An intrinsic function, whose value exists only after deployment."""
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::", "Condition"))


@cache
def schema(resource_type: str) -> dict[str, Any]:
    """CloudFormation's schema, of us-east-1. Raises cfnlint's ResourceNotFoundError."""
    found: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, resource_type).schema
    return found


def _schema_faults(resource: Mapping[str, Any]) -> Iterator[str]:
    """Checks names and types at all levels."""
    if resource["Type"] == "AWS::CDK::Metadata":
        return
    root = schema(resource["Type"])
    yield from _against(resource.get("Properties", {}), root, root, "")


def _resolve(node: Any, root: Any) -> Any:
    while "$ref" in node:
        found = root
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def _against(value: Any, node: Any, root: Any, path: str) -> Iterator[str]:
    node = _resolve(node, root)
    if is_decided_later(value):
        return
    options = node.get("anyOf") or node.get("oneOf")
    if options and "properties" not in node and "type" not in node:
        results = [list(_against(value, option, root, path)) for option in options]
        yield from min(results, key=len)
        return
    if "enum" in node and value not in node["enum"] and str(value) not in map(str, node["enum"]):
        yield f"{path}: {value!r} is none of {node['enum']}"
    if isinstance(value, Mapping):
        yield from _members(value, node, root, path)
    elif isinstance(value, list):
        for item in value:
            yield from _against(item, node.get("items", {}), root, path)


def _members(value: Mapping[str, Any], node: Any, root: Any, path: str) -> Iterator[str]:
    known = node.get("properties")
    if known is None:
        return
    for name, inner in value.items():
        place = f"{path}.{name}".lstrip(".")
        if name in known:
            yield from _against(inner, known[name], root, place)
        elif not any(re.search(pattern, name) for pattern in node.get("patternProperties", {})):
            yield f"{place}: no property of CloudFormation's {root['typeName']}"


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _call_faults(resource: Mapping[str, Any]) -> Iterator[str]:
    kind = resource["Type"]
    for (of, path), allowed in DOCUMENTED.items():
        if of == kind:
            for value in _found(resource.get("Properties", {}), path.split(".")):
                if not is_decided_later(value) and value not in allowed:
                    yield f"{path}: {value!r} is none of {list(allowed)}"
    if kind not in CALLS:
        return
    service, operation = CALLS[kind]
    shape = _model(service).operation_model(operation).input_shape
    elsewhere = {"Tags", *ELSEWHERE.get(kind, "").split()}
    yield from _shape_faults(_without(resource.get("Properties", {}), elsewhere), shape, f"{service}.{operation}")


def _without(value: Any, paths: set[str], here: str = "") -> Any:
    if isinstance(value, list):
        return [_without(item, paths, here) for item in value]
    if not isinstance(value, Mapping):
        return value
    places = {name: f"{here}.{name}".lstrip(".") for name in value}
    return {name: _without(inner, paths, places[name]) for name, inner in value.items() if places[name] not in paths}


def _found(value: Any, path: list[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _found(item, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _found(value[path[0]], path[1:])


def _member(shape: StructureShape, name: str) -> Shape | None:
    """The member of that name in any case, because some services' members begin with a small letter."""
    by_name = {member.lower(): found for member, found in shape.members.items()}
    return by_name.get(name.lower())


def _shape_faults(value: Any, shape: Shape, path: str) -> Iterator[str]:
    if is_decided_later(value):
        return
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        for name, inner in value.items():
            member = _member(shape, name)
            if member is None:
                yield f"{path}: {name} is no member of {shape.name}"
            else:
                yield from _shape_faults(inner, member, f"{path}.{name}")
    elif isinstance(shape, ListShape) and isinstance(value, list):
        yield from _size_faults(len(value), shape, path, "entries")
        for item in value:
            yield from _shape_faults(item, shape.member, path)
    elif isinstance(shape, MapShape) and isinstance(value, Mapping):
        for inner in value.values():
            yield from _shape_faults(inner, shape.value, path)
    elif not isinstance(value, Mapping | list):
        yield from _scalar_faults(value, shape, path)


def _scalar_faults(value: Any, shape: Shape, path: str) -> Iterator[str]:
    allowed = shape.metadata.get("enum")
    if allowed and str(value) not in allowed:
        yield f"{path}: {value!r} is none of {allowed}"
    if shape.type_name == "string":
        yield from _size_faults(len(str(value)), shape, path, "characters")
        pattern = shape.metadata.get("pattern")
        if pattern and not allowed and not _matches(pattern, str(value)):
            yield f"{path}: {value!r} does not match {pattern}"
    if shape.type_name in ("integer", "long", "float", "double"):
        yield from _size_faults(float(value), shape, path, "")


def _size_faults(size: float, shape: Shape, path: str, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if (low is not None and size < low) or (high is not None and size > high):
        yield f"{path}: {size:g} {what} is outside {low} to {high}".replace("  ", " ")


def _matches(pattern: str, value: str) -> bool:
    """Patterns are Java's; one that Python cannot parse is not checked."""
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True
