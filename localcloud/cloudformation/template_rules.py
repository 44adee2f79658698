"""Templates that CloudFormation refuses without looking at a stack: limits, names, attributes, types.

Limits: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from localcloud.cloudformation.errors import ValidationError

LONGEST_BODY = 51_200
LONGEST_STORED = 1_000_000
_MOST = {"Resources": 500, "Parameters": 200, "Outputs": 200, "Mappings": 200}
_MOST_MAPPED = 200
_MOST_DYNAMIC = 60
_LONGEST_DESCRIPTION = 1024
_LONGEST_NAME = 255
_NAME = re.compile(r"[a-zA-Z0-9]+")
_MAPPED_NAME = re.compile(r"[a-zA-Z0-9.-]+")
_ATTRIBUTES = {
    "Resources": {
        "Type", "Properties", "DependsOn", "Condition", "Metadata", "CreationPolicy", "UpdatePolicy", "DeletionPolicy",
        "UpdateReplacePolicy", "Version",
    },
    "Parameters": {
        "Type", "Default", "NoEcho", "AllowedValues", "AllowedPattern", "MinLength", "MaxLength", "MinValue",
        "MaxValue", "Description", "ConstraintDescription",
    },
    "Outputs": {"Description", "Value", "Export", "Condition"},
}  # fmt: skip
_KINDS = {"Resources": "resource", "Parameters": "parameter", "Outputs": "output", "Mappings": "mapping"}
_POLICIES = {
    "DeletionPolicy": ("Delete", "Retain", "RetainExceptOnCreate", "Snapshot"),
    "UpdateReplacePolicy": ("Delete", "Retain", "Snapshot"),
}
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html
_SNAPSHOTS = (
    "AWS::DocDB::DBCluster", "AWS::EC2::Volume", "AWS::ElastiCache::CacheCluster",
    "AWS::ElastiCache::ReplicationGroup", "AWS::Neptune::DBCluster", "AWS::RDS::DBCluster", "AWS::RDS::DBInstance",
    "AWS::Redshift::Cluster",
)  # fmt: skip
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-creationpolicy.html
_AWAITED = (
    "AWS::AppStream::Fleet", "AWS::AutoScaling::AutoScalingGroup", "AWS::CloudFormation::WaitCondition",
    "AWS::EC2::Instance",
)  # fmt: skip
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-supplied-parameter-types.html
_AWS_TYPES = (
    "AWS::EC2::AvailabilityZone::Name", "AWS::EC2::Image::Id", "AWS::EC2::Instance::Id", "AWS::EC2::KeyPair::KeyName",
    "AWS::EC2::SecurityGroup::GroupName", "AWS::EC2::SecurityGroup::Id", "AWS::EC2::Subnet::Id",
    "AWS::EC2::Volume::Id", "AWS::EC2::VPC::Id", "AWS::Route53::HostedZone::Id",
)  # fmt: skip
_PLAIN_TYPES = ("String", "Number", "CommaDelimitedList", "List<Number>", "List<String>", *_AWS_TYPES)
_TYPES = {
    *_PLAIN_TYPES,
    *(f"List<{name}>" for name in _AWS_TYPES),
    "AWS::SSM::Parameter::Name",
    *(f"AWS::SSM::Parameter::Value<{name}>" for name in (*_PLAIN_TYPES, *(f"List<{each}>" for each in _AWS_TYPES))),
}


def check_length(body: str) -> None:
    """For a template in the request itself."""
    if len(body.encode()) > LONGEST_BODY:
        raise ValidationError(
            f"1 validation error detected: Value '{body[:60]}…' at 'templateBody' failed to satisfy constraint: "
            f"Member must have length less than or equal to {LONGEST_BODY}"
        )


def check(body: Mapping[str, Any]) -> None:
    """Raises ValidationError."""
    if body.get("AWSTemplateFormatVersion", "2010-09-09") != "2010-09-09":
        raise ValidationError("Template format error: unsupported value for AWSTemplateFormatVersion.")
    _check_description(body.get("Description"))
    for section in ("Metadata", "Parameters", "Mappings", "Conditions", "Resources", "Outputs", "Rules"):
        if not isinstance(body.get(section) or {}, dict):
            raise ValidationError(f"Template format error: {section} section is not an object: map expected")
    for section in _MOST:
        _check_members(section, body.get(section) or {})
    for name, spec in (body.get("Parameters") or {}).items():
        _check_parameter(name, spec)
    for name, spec in (body.get("Outputs") or {}).items():
        _check_output(name, spec)
    for name, resource in body["Resources"].items():
        _check_resource(name, resource)
    for name, levels in (body.get("Mappings") or {}).items():
        _check_mapping(name, levels)
    if (count := json.dumps(body, default=str).count("{{resolve:")) > _MOST_DYNAMIC:
        raise ValidationError(
            f"Template error: the template has {count} dynamic references, more than the maximum of {_MOST_DYNAMIC}"
        )


def _check_description(text: Any) -> None:
    if text is not None and not isinstance(text, str):
        raise ValidationError("Template format error: every Description member must be a string.")
    if text and len(text.encode()) > _LONGEST_DESCRIPTION:
        raise ValidationError(f"Template format error: 'Description' length is greater than {_LONGEST_DESCRIPTION}.")


def _check_members(section: str, members: Mapping[str, Any]) -> None:
    if len(members) > _MOST[section]:
        raise ValidationError(
            f"Template format error: Number of {section.lower()}, {len(members)}, is greater than maximum allowed, "
            f"{_MOST[section]}"
        )
    for name, spec in members.items():
        if not _NAME.fullmatch(str(name)):
            raise ValidationError(
                f"Template format error: {_KINDS[section].capitalize()} name {name} is non alphanumeric."
            )
        if len(str(name)) > _LONGEST_NAME:
            raise ValidationError(
                f"Template format error: {_KINDS[section].capitalize()} name {name} is longer than {_LONGEST_NAME} "
                "characters."
            )
        if not isinstance(spec, dict):
            raise ValidationError(
                f"Template format error: [/{section}/{name}] Every {section} member must be an object."
            )
        unknown = [each for each in spec if each not in _ATTRIBUTES.get(section, spec)]
        if unknown:
            raise ValidationError(f"Invalid template {_KINDS[section]} property '{unknown[0]}'")


def _check_parameter(name: str, spec: Mapping[str, Any]) -> None:
    if "Type" not in spec:
        raise ValidationError("Template format error: Every Parameters object must contain a Type member.")
    if spec["Type"] not in _TYPES:
        raise ValidationError(f"Template format error: Unrecognized parameter type: {spec['Type']}")
    if isinstance(spec.get("Default"), (dict, list)):
        raise ValidationError("Template format error: Every Default member must be a string.")
    _check_pattern(name, spec.get("AllowedPattern"))
    if str(spec.get("NoEcho", "false")).lower() not in ("true", "false"):
        raise ValidationError(f"Template format error: Every NoEcho member must be a boolean. (parameter {name})")
    if not isinstance(spec.get("AllowedValues", []), list):
        raise ValidationError("Template format error: Every AllowedValues member must be a list.")
    if len(str(spec.get("Description") or "")) > 4000:
        raise ValidationError(f"Template format error: the description of parameter {name} is longer than 4000.")


def _check_pattern(name: str, pattern: Any) -> None:
    """CloudFormation's patterns are Java's, with classes that Python lacks, so only patterns that are invalid in both
    are refused."""
    try:
        re.compile(str(pattern or ""))
    except re.error as error:
        if not str(error).startswith("bad escape"):
            raise ValidationError(f"Template format error: AllowedPattern of parameter {name} is not valid") from None


def _check_output(name: str, spec: Mapping[str, Any]) -> None:
    if "Value" not in spec or spec["Value"] is None:
        raise ValidationError("Template format error: Every Outputs member must contain a Value object")
    if isinstance(spec["Value"], list):
        raise ValidationError(
            "Template format error: The Value field of every Outputs member must evaluate to a String and not a List. "
            f"(output {name})"
        )
    _check_description(spec.get("Description"))
    export = spec.get("Export")
    if "Export" in spec and (not isinstance(export, dict) or set(export) != {"Name"}):
        raise ValidationError(
            f"Template format error: Output {name} is malformed. Export must have the member Name alone"
        )


def _check_resource(name: str, resource: Mapping[str, Any]) -> None:
    if not isinstance(resource.get("Type"), str) or not resource["Type"]:
        raise ValidationError(
            f"Template format error: [/Resources/{name}] Every Resources object must contain a Type member."
        )
    needed = resource.get("DependsOn", [])
    if not all(isinstance(each, str) for each in (needed if isinstance(needed, list) else [needed])):
        raise ValidationError("Template format error: DependsOn must be a string or list of strings. "
                              f"(resource {name})")  # fmt: skip
    if not isinstance(resource.get("Properties") or {}, dict):
        raise ValidationError(f"Template format error: [/Resources/{name}/Properties] 'Properties' must be an object")
    if "CreationPolicy" in resource and resource["Type"].startswith("AWS::") and resource["Type"] not in _AWAITED:
        raise ValidationError(
            f"CreationPolicy attribute is not supported for resource type {resource['Type']} ({name})"
        )
    for attribute, allowed in _POLICIES.items():
        policy = resource.get(attribute, "Delete")
        if policy not in allowed and not isinstance(policy, dict):
            raise ValidationError(f"Template error: Unrecognized {attribute} {policy} for resource {name}")
        if policy == "Snapshot" and resource["Type"] not in _SNAPSHOTS:
            raise ValidationError(
                f"Template error: resource type {resource['Type']} does not support deletion policy Snapshot"
            )


def _check_mapping(name: str, levels: Mapping[str, Any]) -> None:
    """Two levels of keys, then text or a list of text."""
    if len(levels) > _MOST_MAPPED or any(
        isinstance(each, dict) and len(each) > _MOST_MAPPED for each in levels.values()
    ):
        raise ValidationError(
            f"Template format error: Mapping {name} has more attributes than maximum allowed, {_MOST_MAPPED}"
        )
    for key, values in levels.items():
        if not isinstance(values, dict):
            raise ValidationError(
                f"Template format error: Every Mappings attribute must be a String or a List. ({name}/{key})"
            )
        for inner, value in values.items():
            if not _MAPPED_NAME.fullmatch(str(inner)):
                raise ValidationError(f"Template format error: Mappings attribute name '{inner}' must contain only "
                                      "alphanumeric characters, dashes and dots.")  # fmt: skip
            if isinstance(value, dict):
                raise ValidationError(
                    f"Template format error: Every Mappings attribute must be a String or a List. ({name}/{inner})"
                )
