"""Launches that RunInstances and CreateFleet refuse, checked after the launch template has been merged in.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html and the pages that each rule names.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.subnets import Subnet

from localcloud.ec2 import kept, placement
from localcloud.ec2.disks import images
from localcloud.ec2.errors import insufficient_capacity
from localcloud.ec2.networks import interfaces
from localcloud.ec2.validation import model, network, volumes
from localcloud.ec2.validation.model import invalid
from localcloud.validation.refusal import Refusal

Request = dict[str, Any]
_USER_DATA_BYTES = 16384
_MOST_GROUPS = 5  # of an interface
_OF_NEW_ONES = ("Groups", "PrivateIpAddress", "Description", "SecondaryPrivateIpAddressCount", "Ipv6AddressCount")
_MOST_HOPS = 64
_LEAST_PRICE = 0.001
_SPREAD = 7  # instances of a spread group in a zone
_ENDED = ("terminated", "shutting-down")
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-tags-in-IMDS.html; words: seek-oss/aec#411
_METADATA_KEY = re.compile(r"(?!\.$|\.\.$|_index$)[0-9a-zA-Z\-_+=,.@:]{1,255}")


def check(backend: EC2Backend, request: Request, nics: list[interfaces.Nic], subnet: Subnet) -> None:
    """Raises a Refusal. The caller has checked that the type and the image exist."""
    _check_counts(request)
    model.check("RunInstances", request)  # includes the launch template's values
    _check_user_data(request)
    _check_architecture(backend, request)
    _check_metadata(request)
    _check_cpus(request)
    _check_market(request)
    _check_volumes(backend, request)
    _check_hibernation(backend, request)
    _check_credits(request)
    _check_efa(request["InstanceType"], nics)
    _check_nics(backend, request, nics)
    _check_group(backend, request, subnet.availability_zone)


def _check_counts(request: Request) -> None:
    least, most = int(request.get("MinCount") or 0), int(request.get("MaxCount") or 0)
    if least < 1:
        raise invalid("minCount", least, "Minimum value is 1.")
    if most < least:
        raise invalid("maxCount", most, f"It must be at least minCount, {least}.")


def _check_user_data(request: Request) -> None:
    try:
        decoded = base64.b64decode(str(request.get("UserData") or ""))
    except ValueError:
        return  # moto's parser reports it with AWS's message
    if len(decoded) > _USER_DATA_BYTES:
        raise Refusal("InvalidParameterValue", f"User data is limited to {_USER_DATA_BYTES} bytes")


def _check_architecture(backend: EC2Backend, request: Request) -> None:
    image = backend.amis[request["ImageId"]]
    offered = INSTANCE_TYPES[request["InstanceType"]].get("ProcessorInfo", {}).get("SupportedArchitectures", [])
    if offered and image.architecture and image.architecture not in offered:
        raise Refusal(
            "InvalidParameterValue",
            f"The architecture '{','.join(offered)}' of the specified instance type does not match the architecture "
            f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have matching "
            "architectures, and try again.",
        )


def _check_metadata(request: Request) -> None:
    options = request.get("MetadataOptions") or {}
    hops = options.get("HttpPutResponseHopLimit")
    if hops is not None and not 1 <= int(hops) <= _MOST_HOPS:
        raise invalid("httpPutResponseHopLimit", hops, f"It must be between 1 and {_MOST_HOPS}.")
    if options.get("InstanceMetadataTags") != "enabled":
        return
    for specification in request.get("TagSpecifications") or []:
        for tag in specification.get("Tags") or [] if specification.get("ResourceType") == "instance" else []:
            if not _METADATA_KEY.fullmatch(str(tag.get("Key"))):
                raise Refusal(
                    "InvalidParameterValue",
                    f"'{tag.get('Key')}' is not a valid tag key. Tag keys must match pattern "
                    "([0-9a-zA-Z\\\\-_+=,.@:]{1,255}), and must not be a reserved name ('.', '..', '_index')",
                )


def _check_cpus(request: Request) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cpu-options-supported-instances-values.html"""
    options, offered = request.get("CpuOptions") or {}, INSTANCE_TYPES[request["InstanceType"]].get("VCpuInfo", {})
    cores, threads = options.get("CoreCount"), options.get("ThreadsPerCore")
    for value, valid in ((cores, offered.get("ValidCores")), (threads, offered.get("ValidThreadsPerCore"))):
        if value is not None and valid and int(value) not in valid:
            raise Refusal(
                "InvalidParameterValue",
                f"The value {value} of CpuOptions is not valid for {request['InstanceType']}: {valid} are.",
            )


def _check_market(request: Request) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotMarketOptions.html"""
    chosen = request.get("InstanceMarketOptions") or {}
    spot = chosen.get("SpotOptions") or {}
    if spot and chosen.get("MarketType") != "spot":
        raise Refusal("InvalidParameterCombination", "SpotOptions can be used only with the market type spot.")
    once = (spot.get("SpotInstanceType") or "one-time") == "one-time"
    if once and spot.get("InstanceInterruptionBehavior") in ("stop", "hibernate"):
        raise Refusal(
            "InvalidParameterCombination",
            f"The interruption behavior {spot['InstanceInterruptionBehavior']} needs a persistent Spot request.",
        )
    if once and spot.get("ValidUntil"):
        raise Refusal("InvalidParameterCombination", "ValidUntil is only supported for persistent Spot requests.")
    if (price := spot.get("MaxPrice")) is not None and not _is_price(str(price)):
        raise invalid("price", price, f"It must be at least {_LEAST_PRICE} USD.")


def _is_price(text: str) -> bool:
    return re.fullmatch(r"\d*\.?\d+", text) is not None and float(text) >= _LEAST_PRICE


def _check_volumes(backend: EC2Backend, request: Request) -> None:
    image = backend.amis[request["ImageId"]]
    mappings = request.get("BlockDeviceMappings") or []
    names = [str(mapping.get("DeviceName")) for mapping in mappings]
    if doubled := [name for name, times in Counter(names).items() if times > 1]:
        raise Refusal(
            "InvalidBlockDeviceMapping", f"The device '{doubled[0]}' is used in more than one block-device mapping"
        )
    for mapping in mappings:
        if not mapping.get("DeviceName"):
            raise Refusal("MissingParameter", "The request must contain the parameter deviceName")
        if "Ebs" in mapping:
            _check_volume(backend, mapping["DeviceName"], mapping["Ebs"] or {}, image)


def _check_volume(backend: EC2Backend, name: str, ebs: Request, image: Any) -> None:
    size = ebs.get("VolumeSize")
    root = name == (image.root_device_name or "/dev/sda1")
    snapshot = backend.snapshots.get(str(ebs.get("SnapshotId") or ""))
    least = images.root_size_gib(image) if root else int(snapshot.volume.size) if snapshot else None
    if size is not None and least is not None and int(size) < least:
        source = image.ebs_snapshot.id if root else ebs["SnapshotId"]
        raise Refusal(
            "InvalidBlockDeviceMapping",
            f"Volume of size {size}GB is smaller than snapshot '{source}', expect size>= {least}GB",
        )
    if size is None and least is None:
        raise Refusal("MissingParameter", "The request must contain the parameter size or snapshotId")
    if ebs.get("KmsKeyId") and not ebs.get("Encrypted"):
        raise Refusal(
            "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."
        )
    if root and ebs.get("VolumeType") in (
        "st1",
        "sc1",
    ):  # https://docs.aws.amazon.com/ebs/latest/userguide/hdd-vols.html
        raise invalid("volumeType", ebs["VolumeType"], "It cannot be used as a boot volume.")
    wanted = int(size) if size is not None else least
    volumes.check(wanted, ebs.get("VolumeType") or "gp3", ebs.get("Iops"), ebs.get("Throughput"))


def _check_hibernation(backend: EC2Backend, request: Request) -> None:
    if not (request.get("HibernationOptions") or {}).get("Configured"):
        return
    root = backend.amis[request["ImageId"]].root_device_name or "/dev/sda1"
    mapped = {str(each.get("DeviceName")): each.get("Ebs") or {} for each in request.get("BlockDeviceMappings") or []}
    if not mapped.get(root, {}).get("Encrypted"):
        raise Refusal("UnsupportedHibernationConfiguration", "Hibernation needs an encrypted root volume.")


def _check_credits(request: Request) -> None:
    chosen = (request.get("CreditSpecification") or {}).get("CpuCredits")
    burstable = INSTANCE_TYPES[request["InstanceType"]].get("BurstablePerformanceSupported")
    if chosen and burstable is False:
        raise Refusal(
            "InvalidParameterCombination",
            f"The credit specification is not supported for the instance type {request['InstanceType']}.",
        )


def _check_efa(instance_type: str, nics: list[interfaces.Nic]) -> None:
    """One on each card: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"""
    for card, wanted in Counter(interfaces.card(nic) for nic in nics if interfaces.kind(nic) != "interface").items():
        if wanted > 1:
            raise Refusal(
                "AttachmentLimitExceeded",
                f"{wanted} EFA interfaces were requested for network card {card} of {instance_type}, which takes one.",
            )


def _check_nics(backend: EC2Backend, request: Request, nics: list[interfaces.Nic]) -> None:
    for nic in nics:
        if request.get("NetworkInterfaces") and nic.get("DeviceIndex") is None:
            raise Refusal("InvalidParameterValue", "Each network interface requires a device index.")
        if address := nic.get("PrivateIpAddress"):
            if int(request.get("MaxCount") or 1) > 1:
                raise Refusal(
                    "InvalidParameterCombination", "A private IP address can be specified for one instance only."
                )
            network.check_address(backend.get_subnet(nic["SubnetId"]), str(address))
        if len(nic.get("Groups") or []) > _MOST_GROUPS:
            raise Refusal(
                "SecurityGroupsPerInterfaceLimitExceeded",
                "The maximum number of security groups per interface has been reached.",
            )
        if nic.get("NetworkInterfaceId") and any(nic.get(name) for name in _OF_NEW_ONES):
            raise Refusal(
                "InvalidParameterCombination",
                "A network interface may not specify both a network interface ID and a subnet, groups, or an address",
            )
        taken = backend.enis.get(str(nic.get("NetworkInterfaceId") or ""))
        if taken and taken.instance:
            raise Refusal("InvalidNetworkInterface.InUse", f"Interface: [{taken.id}] in use.")


def _check_group(backend: EC2Backend, request: Request, zone: str) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html"""
    wanted = request.get("Placement") or {}
    if wanted.get("GroupId") and wanted.get("GroupName"):
        raise Refusal("InvalidParameterCombination", "A placement names its group by GroupId or by GroupName.")
    name = placement.group_name(backend, wanted)
    group = kept.of(backend, placement.GROUPS).get(name)
    if group is None:
        if wanted.get("PartitionNumber"):
            raise Refusal("InvalidParameterCombination", "PartitionNumber is valid only with a placement group.")
        return
    _check_strategy(group, wanted, request["InstanceType"])
    there = [i for i in backend.all_instances() if i.placement.group_name == name and i.state not in _ENDED]
    if group["Strategy"] == "cluster" and (other := next((i.placement.zone for i in there), zone)) != zone:
        raise Refusal(
            "InvalidParameterValue",
            f"Instances in the Placement Group '{name}' must be launched in the {other} Availability Zone. Specify the "
            f"{other} Availability Zone and try again.",
        )
    here = sum(i.placement.zone == zone for i in there) + int(request.get("MinCount") or 1)
    if group["Strategy"] == "spread" and group.get("SpreadLevel") != "host" and here > _SPREAD:
        raise insufficient_capacity(request["InstanceType"], zone)


def _check_strategy(group: kept.Record, wanted: Request, instance_type: str) -> None:
    offered = INSTANCE_TYPES[instance_type].get("PlacementGroupInfo", {}).get("SupportedStrategies")
    if offered and group["Strategy"] not in offered:
        raise Refusal(
            "InvalidParameterCombination",
            f"{group['Strategy'].capitalize()} placement groups are not supported by the '{instance_type}' instance "
            "type. Specify a supported instance type or change the placement group strategy, and try again.",
        )
    number, most = wanted.get("PartitionNumber"), int(group.get("PartitionCount") or 2)
    if number is not None and (group["Strategy"] != "partition" or not 1 <= int(number) <= most):
        raise invalid("partitionNumber", number, f"The placement group '{group['GroupName']}' has no such partition.")
