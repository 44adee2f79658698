"""From a RunInstances request to running instances: merges the template, checks the rules, builds and starts instances.

RunInstances and CreateFleet share this path. A request is a dictionary with the EC2 API's names.
"""

from __future__ import annotations

import ipaddress
import sys
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.types import Base64EncodedString
from moto.ec2.exceptions import DryRunClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance, Reservation
from moto.ec2.models.subnets import Subnet
from moto.ec2.utils import convert_tag_spec, filter_iam_instance_profiles, parse_user_data
from moto.iam.models import InstanceProfile

from localcloud.ec2 import catalogue, placement, power, quotas, reservations, undo
from localcloud.ec2.disks import images
from localcloud.ec2.errors import Ec2Error, insufficient_capacity, not_offered
from localcloud.ec2.networks import interfaces
from localcloud.ec2.validation import launch as rules
from localcloud.pace.hooks import Pace
from localcloud.runtime import Runtime

Request = dict[str, Any]
_RESERVED_ADDRESSES = 5  # AWS reserves the first four addresses and the last of every subnet


def run(runtime: Runtime, backend: EC2Backend, request: Request, *, dry_run: bool = False) -> Reservation:
    """Launches MinCount to MaxCount instances, or raises EC2's error."""
    request = merged(backend, request)
    nics = network_interfaces(backend, request)
    subnet = backend.get_subnet(nics[0]["SubnetId"])
    profile = _check(runtime, backend, request, nics, subnet)
    if dry_run:
        raise DryRunClientError()
    instance_type = request["InstanceType"]
    market = reservations.market(request)
    least, place = int(request.get("MinCount") or 1), (instance_type, subnet.availability_zone)
    quotas.check(runtime.faults, backend, instance_type, least, market)
    if runtime.faults.no_capacity(*place, least):
        raise insufficient_capacity(*place)
    room = min(
        quotas.room(runtime.faults, backend, instance_type, market),
        reservations.room(backend, request),
        runtime.faults.room(*place),
    )
    count = min(_count(request, nics, subnet), int(min(room, sys.maxsize)))
    with undo.what_fails(backend):
        reservation = _build(backend, request, nics, count)
        for instance in reservation.instances:
            _complete(backend, instance, request, nics, profile)
    runtime.faults.launched(*place, count)
    for instance in reservation.instances:
        power.on(runtime, instance)
    return reservation


def merged(backend: EC2Backend, request: Request) -> Request:
    """The request merged over its launch template's data; tags of both are used, and the request's come first."""
    chosen = request.get("LaunchTemplate")
    if not chosen:
        return request
    version = template_version(backend, chosen)
    data = {key: value for key, value in version.data.items() if value not in (None, "", [], {})}
    both = data | {key: value for key, value in request.items() if value not in (None, "", [], {})}
    for key in ("MetadataOptions", "Placement"):
        if key in data and key in request:
            both[key] = data[key] | request[key]
    both["TagSpecifications"] = data.get("TagSpecifications", []) + request.get("TagSpecifications", [])
    both["_TemplateTags"] = {
        "aws:ec2launchtemplate:id": version.template.id,
        "aws:ec2launchtemplate:version": str(version.number),
    }
    return both


def template_version(backend: EC2Backend, chosen: dict[str, str]) -> Any:
    if template_id := chosen.get("LaunchTemplateId"):
        template = backend.get_launch_template(template_id)
    else:
        template = backend.get_launch_template_by_name(chosen.get("LaunchTemplateName", ""))
    wanted = str(chosen.get("Version") or "$Default")
    if wanted not in ("$Latest", "$Default") and wanted not in {str(v.number) for v in template.versions}:
        raise Ec2Error(
            "InvalidLaunchTemplateId.VersionNotFound",
            f"Could not find launch template version {wanted} for launch template {template.id}",
        )
    return template.get_version(wanted)


def network_interfaces(backend: EC2Backend, request: Request) -> list[interfaces.Nic]:
    """The request's interfaces, each with its subnet; one in the request's or the default subnet if none is named."""
    named = [dict(nic) for nic in request.get("NetworkInterfaces") or []]
    subnet_id = request.get("SubnetId")
    if named and subnet_id:
        raise Ec2Error(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level subnet ID may not be specified on the same request",
        )
    if subnet_id and request.get("SecurityGroups"):
        raise Ec2Error(
            "InvalidParameterCombination", "The parameter groupName cannot be used with the parameter subnet"
        )
    if named and request.get("SecurityGroupIds"):
        raise Ec2Error(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups may not be specified on the same request",
        )
    if not named:
        address = {"PrivateIpAddress": request["PrivateIpAddress"]} if request.get("PrivateIpAddress") else {}
        named = [{"DeviceIndex": 0, "Groups": request.get("SecurityGroupIds") or []} | address]
    for nic in named:
        if existing := nic.get("NetworkInterfaceId"):
            nic["SubnetId"] = backend.get_network_interface(existing).subnet.id
        nic["SubnetId"] = nic.get("SubnetId") or subnet_id or _default_subnet(backend, request)
    return sorted(named, key=interfaces.slot)


def _default_subnet(backend: EC2Backend, request: Request) -> str:
    zone = (request.get("Placement") or {}).get("AvailabilityZone")
    subnets: dict[str, Subnet] = backend.get_default_subnets()
    for name in sorted(subnets):
        if zone in (None, name):
            return subnets[name].id
    raise Ec2Error("MissingInput", "No default VPC for this user: specify a subnet")


def _check(
    runtime: Runtime, backend: EC2Backend, request: Request, nics: list[interfaces.Nic], subnet: Subnet
) -> InstanceProfile | None:
    """Everything that EC2 refuses before it looks for capacity."""
    instance_type = request.setdefault("InstanceType", "m1.small")
    if not catalogue.exists(instance_type):
        raise Ec2Error("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
    if not request.get("ImageId"):
        raise Ec2Error("MissingParameter", "The request must contain the parameter ImageId")
    images.check_launchable(backend, request["ImageId"])
    if runtime.faults.not_offered(instance_type, subnet.availability_zone):
        raise not_offered(instance_type, subnet.availability_zone)
    interfaces.check(instance_type, nics)
    _check_groups(backend, nics, subnet)
    rules.check(backend, request, nics, subnet)
    placement.check(backend, request.get("Placement") or {}, subnet.availability_zone)
    reservations.check(backend, request, subnet.availability_zone)
    key_name = request.get("KeyName")
    if key_name and key_name not in backend.key_pairs:
        raise Ec2Error("InvalidKeyPair.NotFound", f"The key pair '{key_name}' does not exist")
    return _instance_profile(runtime.pace, backend, request.get("IamInstanceProfile") or {})


def _instance_profile(pace: Pace, backend: EC2Backend, chosen: dict[str, str]) -> InstanceProfile | None:
    if not chosen:
        return None
    key, value = next(iter(chosen.items()))
    try:
        profile: InstanceProfile = filter_iam_instance_profiles(
            backend.account_id,
            partition=backend.partition,
            iam_instance_profile_arn=chosen.get("Arn"),
            iam_instance_profile_name=chosen.get("Name"),
        )
    except ServiceException as error:
        raise _invalid_profile(chosen) from error
    if not pace.knows_profile(profile.name):
        raise _invalid_profile(chosen)
    if not profile.roles:
        raise Ec2Error(
            "InvalidParameterValue",
            f"Value ({value}) for parameter iamInstanceProfile.{key.lower()} is invalid. IAM Instance Profile "
            f'"{profile.arn}" has no associated IAM Roles',
        )
    return profile


def _invalid_profile(chosen: dict[str, str]) -> Ec2Error:
    key, value = next(iter(chosen.items()))
    return Ec2Error(
        "InvalidParameterValue",
        f"Value ({value}) for parameter iamInstanceProfile.{key.lower()} is invalid. "
        f"Invalid IAM Instance Profile {key.lower()}",
    )


def _check_groups(backend: EC2Backend, nics: list[interfaces.Nic], subnet: Subnet) -> None:
    for nic in nics:
        if backend.get_subnet(nic["SubnetId"]).availability_zone != subnet.availability_zone:
            raise Ec2Error(
                "InvalidParameterCombination", "All network interfaces must be in the same Availability Zone"
            )
        for group_id in nic.get("Groups") or []:
            group = backend.get_security_group_from_id(group_id)
            if group is None:
                raise Ec2Error("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
            if group.vpc_id != subnet.vpc_id:
                raise Ec2Error(
                    "InvalidParameter",
                    f"Security group {group_id} and subnet {subnet.id} belong to different networks.",
                )


def _count(request: Request, nics: list[interfaces.Nic], subnet: Subnet) -> int:
    """How many of MinCount to MaxCount fit in the subnet."""
    most, least = int(request.get("MaxCount") or 1), int(request.get("MinCount") or 1)
    used = len(subnet._subnet_ips)
    size = ipaddress.ip_network(subnet.cidr_block).num_addresses
    each = sum(interfaces.kind(nic) != "efa-only" for nic in nics)
    fitting = max(size - _RESERVED_ADDRESSES - used, 0) // each
    if fitting < least:
        raise Ec2Error(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of "
            "instances.",
        )
    return min(most, fitting)


def _build(backend: EC2Backend, request: Request, nics: list[interfaces.Nic], count: int) -> Reservation:
    """moto's model objects; moto itself merges nothing and ignores templates."""
    reservation: Reservation | None = None
    volumes = _volumes(backend, request)
    for index in range(count):
        made = backend.run_instances(
            request["ImageId"],
            1,
            _user_data(request),
            [],
            instance_type=request["InstanceType"],
            is_instance_type_default=True,  # moto would search a long list; `_check` has done so
            region_name=backend.region_name,
            key_name=request.get("KeyName"),
            nics=interfaces.for_moto(_with_addresses(backend, nics)),
            associate_public_ip=None,
            subnet_id=nics[0]["SubnetId"],
            tags=_tags(request),
            block_device_mappings=_moto_volumes(volumes),
            ebs_optimized=request.get("EbsOptimized") or False,
            metadata_options=request.get("MetadataOptions") or {},
            client_token=request.get("ClientToken"),
            instance_market_options=reservations.market(request) == "spot",
            instance_initiated_shutdown_behavior=request.get("InstanceInitiatedShutdownBehavior"),
            disable_api_termination=request.get("DisableApiTermination") or False,
            disable_api_stop=request.get("DisableApiStop") or False,
        )
        if reservation is None:
            reservation = made
        else:
            reservation.instances += made.instances
            del backend.reservations[made.id]
        made.instances[-1].ami_launch_index = index
        _speed(backend, made.instances[-1], volumes)
    if reservation is None:
        raise Ec2Error("InvalidParameterValue", "MaxCount must be at least 1")
    return reservation


def _user_data(request: Request) -> Base64EncodedString | None:
    value = request.get("UserData")
    return value if isinstance(value, Base64EncodedString) else parse_user_data(value)


def _with_addresses(backend: EC2Backend, nics: list[interfaces.Nic]) -> list[interfaces.Nic]:
    """moto chooses secondary addresses at random, so they can collide; this takes them from the subnet instead."""
    ready = []
    for nic in nics:
        if interfaces.slot(nic) and interfaces.kind(nic) != "efa-only" and not nic.get("PrivateIpAddress"):
            subnet = backend.get_subnet(nic["SubnetId"])
            nic = nic | {"PrivateIpAddress": subnet.get_available_subnet_ip(instance=None)}  # type: ignore[arg-type]
        ready.append(nic)
    return ready


def _tags(request: Request) -> dict[str, dict[str, str]]:
    tags: dict[str, dict[str, str]] = convert_tag_spec(request.get("TagSpecifications") or [])
    tags["instance"] = tags.get("instance", {}) | request.get("_TemplateTags", {})
    return tags


def _volumes(backend: EC2Backend, request: Request) -> list[dict[str, Any]]:
    """The request's block devices, with the image's root device."""
    image = backend.describe_images(ami_ids=[request["ImageId"]])[0]
    named = {
        mapping["DeviceName"]: dict(mapping.get("Ebs") or {})
        for mapping in request.get("BlockDeviceMappings") or []
        if mapping.get("NoDevice") is None and mapping.get("VirtualName") is None
    }
    root = image.root_device_name or "/dev/sda1"
    volumes = {root: {"VolumeSize": images.root_size_gib(image)} | named.pop(root, {})} | named
    usual = {"VolumeSize": None, "VolumeType": "gp3", "DeleteOnTermination": True, "Encrypted": False}
    return [{"DeviceName": name, "Ebs": usual | ebs} for name, ebs in volumes.items()]


def _moto_volumes(volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """moto's run_instances has no IOPS: `_speed` sets them, and the type that needs them, afterwards."""
    return [volume | {"Ebs": volume["Ebs"] | {"VolumeType": "gp3"}} for volume in volumes]


def _speed(backend: EC2Backend, instance: Instance, volumes: list[dict[str, Any]]) -> None:
    for volume in volumes:
        ebs, made = volume["Ebs"], backend.volumes[instance.block_device_mapping[volume["DeviceName"]].volume_id]
        made.volume_type = ebs["VolumeType"]
        made.iops = ebs.get("Iops") or (made.iops if ebs["VolumeType"] == "gp3" else None)
        made.throughput = ebs.get("Throughput")


def _complete(
    backend: EC2Backend,
    instance: Instance,
    request: Request,
    nics: list[interfaces.Nic],
    profile: InstanceProfile | None,
) -> None:
    interfaces.settle(instance, nics)
    instance.security_groups = list(instance.nics[0].group_set)
    instance._state.name, instance._state.code = "pending", 0
    wanted = request.get("Placement") or {}
    instance.placement.group_name = placement.group_name(backend, wanted)
    instance.placement.tenancy = wanted.get("Tenancy") or "default"
    instance.capacity_reservation_id = reservations.target(request)  # type: ignore[attr-defined]
    if reservations.market(request) == reservations.BLOCK:
        instance.lifecycle = reservations.BLOCK
    tags = _tags(request)
    for interface in instance.nics.values():
        interface.add_tags(tags.get("network-interface", {}))
    if profile is not None:
        backend.associate_iam_instance_profile(instance.id, iam_instance_profile_arn=profile.arn)
