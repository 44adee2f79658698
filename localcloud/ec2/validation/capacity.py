"""Rules for creating reservations, Capacity Blocks, placement groups, launch templates and fleets.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html, .../placement-groups.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2 import catalogue
from localcloud.ec2.validation import tags
from localcloud.ec2.validation.model import invalid
from localcloud.validation.refusal import Refusal
from localcloud.validation.telemetry import moment

Given = dict[str, Any]
_BLOCK_FAMILIES = ("p4d.", "p4de.", "p5.", "p5e.", "p5en.", "p6", "u-p6e", "trn1.", "trn2.", "trn3")
_BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64)
_MOST_RESERVED = 1000
_MOST_PARTITIONS = 7
_LONGEST_NAME = 255
_TEMPLATE_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
_PRIORITIZED = ("prioritized", "capacity-optimized-prioritized")


def offerings(backend: EC2Backend, given: Given) -> None:
    instance_type, count, hours = (
        given.get("InstanceType"),
        given.get("InstanceCount"),
        given.get("CapacityDurationHours"),
    )
    if instance_type and not str(instance_type).startswith(_BLOCK_FAMILIES):
        raise invalid("instanceType", instance_type, "The instance type is not supported for Capacity Blocks.")
    if count is not None and int(count) not in _BLOCK_SIZES:
        raise invalid("instanceCount", count, f"It must be one of {', '.join(map(str, _BLOCK_SIZES))}.")
    begin, end = moment(given.get("StartDateRange")), moment(given.get("EndDateRange"))
    if begin and end and begin >= end:
        raise invalid("endDateRange", given["EndDateRange"], "It must be after StartDateRange.")
    if hours is not None and not _is_duration(int(hours)):
        raise invalid("capacityDurationHours", hours, "It must be in days up to 14, or in weeks up to 182 days.")


def _is_duration(hours: int) -> bool:
    days, rest = divmod(hours, 24)
    return not rest and (1 <= days <= 14 or (days <= 182 and days % 7 == 0))


def reserve(backend: EC2Backend, given: Given) -> None:
    count = int(given.get("InstanceCount") or 0)
    if not 1 <= count <= _MOST_RESERVED:
        raise Refusal(
            "InvalidParameterValue",
            f"{count} is an invalid value for InstanceCount. InstanceCount must be between 1 and {_MOST_RESERVED}.",
        )
    if not given.get("AvailabilityZone") and not given.get("AvailabilityZoneId"):
        raise Refusal(
            "MissingParameter", "The request must contain the parameter availabilityZone or availabilityZoneId"
        )
    zones = [each.name for each in backend.describe_availability_zones()]
    if given.get("AvailabilityZone") and given["AvailabilityZone"] not in zones:
        raise invalid("availabilityZone", given["AvailabilityZone"], "The Availability Zone does not exist.")
    _check_end(given)


def _check_end(given: Given) -> None:
    kind, end = given.get("EndDateType") or "unlimited", given.get("EndDate")
    if kind == "unlimited" and end:
        raise Refusal("InvalidParameterCombination", "EndDate cannot be provided when EndDateType is unlimited.")
    if kind == "limited" and not end:
        raise Refusal("InvalidParameterCombination", "EndDate must be provided when EndDateType is limited.")
    when = moment(end)
    if when and when <= datetime.now(UTC):
        raise invalid("endDate", end, "The end date must be in the future.")


def change_reservation(backend: EC2Backend, given: Given) -> None:
    if given.get("EndDateType"):
        _check_end(given)
    if given.get("InstanceCount") is not None:
        reserve(
            backend,
            given | {"EndDateType": None, "EndDate": None, "AvailabilityZoneId": "kept", "AvailabilityZone": None},
        )


def create_placement_group(backend: EC2Backend, given: Given) -> None:
    name, strategy = str(given.get("GroupName") or ""), given.get("Strategy") or "cluster"
    partitions = given.get("PartitionCount")
    if len(name) > _LONGEST_NAME or not name.isascii():
        raise invalid("groupName", name, f"It must have at most {_LONGEST_NAME} ASCII characters.")
    if partitions is not None and strategy != "partition":
        raise Refusal("InvalidParameterCombination", "PartitionCount is valid only with the strategy 'partition'.")
    if partitions is not None and not 1 <= int(partitions) <= _MOST_PARTITIONS:
        raise invalid("partitionCount", partitions, f"It must be between 1 and {_MOST_PARTITIONS}.")
    if given.get("SpreadLevel") and strategy != "spread":
        raise Refusal("InvalidParameterCombination", "SpreadLevel is valid only with the strategy 'spread'.")


def new_template(backend: EC2Backend, given: Given) -> None:
    name = str(given.get("LaunchTemplateName"))
    if not _TEMPLATE_NAME.fullmatch(name):
        raise Refusal(
            "InvalidLaunchTemplateName.MalformedException",
            "Launch template names must be between 3 and 128 characters, and may contain letters, numbers, and the "
            "following characters: - ( ) . / _",
        )
    create_template(backend, given)


def create_template(backend: EC2Backend, given: Given) -> None:
    data = given.get("LaunchTemplateData") or {}
    if given.get("SourceVersion"):
        _check_version(backend, given)
    for specification in data.get("TagSpecifications") or []:
        if specification.get("ResourceType") not in (None, *tags.LAUNCHED):
            raise Refusal(
                "InvalidParameterValue",
                f"'{specification['ResourceType']}' is not a valid taggable resource type for this operation.",
            )
    if not data:
        raise Refusal("MissingParameter", "The request must contain the parameter LaunchTemplateData")
    if (data.get("InstanceMarketOptions") or {}) and not data["InstanceMarketOptions"].get("MarketType"):
        raise Refusal(  # awsdocs/aws-cloudformation-user-guide#205
            "MissingParameter",
            "You must use a valid fully-formed launch template. The request must contain the parameter MarketType",
        )


def _check_version(backend: EC2Backend, given: Given) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplateVersion.html"""
    named, wanted = given.get("LaunchTemplateId"), str(given["SourceVersion"])
    template = (
        backend.launch_templates.get(str(named))
        if named
        else next((t for t in backend.launch_templates.values() if t.name == given.get("LaunchTemplateName")), None)
    )
    if template and not wanted.startswith("$") and wanted not in [str(each.number) for each in template.versions]:
        raise Refusal("InvalidLaunchTemplateId.VersionNotFound",
                      f"Could not find launch template version {wanted}")  # fmt: skip


def named_template(backend: EC2Backend, given: Given) -> None:
    check_template_name(given)


def launch_template(backend: EC2Backend, given: Given) -> None:
    if given.get("LaunchTemplate"):
        check_template_name(given["LaunchTemplate"])


def check_template_name(chosen: Given) -> None:
    named = [name for name in ("LaunchTemplateId", "LaunchTemplateName") if chosen.get(name)]
    if len(named) != 1:
        code = "InvalidParameterCombination" if named else "MissingParameter"
        raise Refusal(code, "The request must contain exactly one of LaunchTemplateId and LaunchTemplateName")


def create_fleet(backend: EC2Backend, given: Given) -> None:
    for config in given.get("LaunchTemplateConfigs") or []:
        chosen = config.get("LaunchTemplateSpecification") or {}
        check_template_name(chosen)
        if not chosen.get("Version"):
            raise Refusal("MissingParameter", "The request must contain the parameter Version")
    wanted = int((given.get("TargetCapacitySpecification") or {}).get("TotalTargetCapacity") or 0)
    fewest = 1 if given.get("Type") == "instant" else 0  # a fleet of another type can be enlarged later
    if wanted < fewest:
        raise invalid("totalTargetCapacity", wanted, f"It must be at least {fewest}.")
    for options in ("OnDemandOptions", "SpotOptions"):
        strategy = (given.get(options) or {}).get("AllocationStrategy")
        if strategy and strategy not in _PRIORITIZED and any(_priorities(given)):
            raise Refusal(
                "InvalidParameterCombination", f"Priority is not supported with the allocation strategy {strategy}."
            )
        least = int((given.get(options) or {}).get("MinTargetCapacity") or 0)
        if least > wanted:
            raise invalid("minTargetCapacity", least, f"It cannot be greater than the target capacity {wanted}.")


def _priorities(given: Given) -> Iterator[bool]:
    for config in given.get("LaunchTemplateConfigs") or []:
        for override in config.get("Overrides") or []:
            yield override.get("Priority") is not None


def known_zones(backend: EC2Backend, given: Given) -> None:
    zones = list(backend.describe_availability_zones())
    for member, known in (("ZoneNames", {z.name for z in zones}), ("ZoneIds", {z.zone_id for z in zones})):
        if unknown := [each for each in given.get(member) or [] if each not in known]:
            raise Refusal("InvalidParameterValue", f"Invalid availability zone: [{unknown[0]}]")


def known_type(backend: EC2Backend, given: Given) -> None:
    for instance_type in given.get("InstanceTypes") or []:
        if not catalogue.exists(instance_type):
            raise Refusal(
                "InvalidInstanceType", f"The following supplied instance types do not exist: [{instance_type}]"
            )
