"""Parameters of AWS's own types: the resources that they name must exist in the account and the region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from localcloud.cloudformation.errors import ValidationError
from localcloud.cloudformation.parameters import ParameterValue
from localcloud.cloudformation.scopes import Clients
from localcloud.cloudformation.template import Template

# type: service, call, and the member that takes what the parameter says
_LOOK_UP = {
    "AWS::EC2::AvailabilityZone::Name": ("ec2", "describe_availability_zones", "ZoneNames"),
    "AWS::EC2::Image::Id": ("ec2", "describe_images", "ImageIds"),
    "AWS::EC2::Instance::Id": ("ec2", "describe_instances", "InstanceIds"),
    "AWS::EC2::KeyPair::KeyName": ("ec2", "describe_key_pairs", "KeyNames"),
    "AWS::EC2::SecurityGroup::GroupName": ("ec2", "describe_security_groups", "GroupNames"),
    "AWS::EC2::SecurityGroup::Id": ("ec2", "describe_security_groups", "GroupIds"),
    "AWS::EC2::Subnet::Id": ("ec2", "describe_subnets", "SubnetIds"),
    "AWS::EC2::Volume::Id": ("ec2", "describe_volumes", "VolumeIds"),
    "AWS::EC2::VPC::Id": ("ec2", "describe_vpcs", "VpcIds"),
    "AWS::Route53::HostedZone::Id": ("route53", "get_hosted_zone", "Id"),
}


def check(template: Template, values: Mapping[str, ParameterValue], clients: Clients, region: str) -> None:
    """Raises ValidationError for the first one that does not exist."""
    for name, spec in template.parameters.items():
        value = values[name]
        kind = str(spec["Type"]).removeprefix("AWS::SSM::Parameter::Value<").removeprefix("List<").rstrip(">")
        for item in value.value if isinstance(value.value, list) else [value.value]:
            if kind in _LOOK_UP and not _exists(kind, str(item), clients, region):
                raise ValidationError(
                    f"Parameter validation failed: parameter value {item} for parameter name {name} does not exist"
                )


def _exists(kind: str, item: str, clients: Clients, region: str) -> bool:
    service, call, member = _LOOK_UP[kind]
    wanted: Any = [item] if member.endswith("s") else item
    try:
        getattr(clients(service, region), call)(**{member: wanted})
    except ClientError:
        return False
    return True
