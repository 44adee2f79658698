"""AWS::EC2::Instance."""

from __future__ import annotations

import base64
from typing import Any

from botocore.exceptions import ClientError

from localcloud.cloudformation.errors import ResourceError, UnchangedError
from localcloud.cloudformation.resources.ec2 import retag
from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    only,
    resource,
    tag_list,
    without,
)

# Properties with another name or structure in RunInstances.
_OTHERWISE = (
    "Affinity", "AvailabilityZone", "HostId", "IamInstanceProfile", "Monitoring", "NetworkInterfaces",
    "PlacementGroupName", "PropagateTagsToVolumeOnCreation", "SourceDestCheck", "Tags", "Tenancy", "UserData",
    "Volumes",
)  # fmt: skip
# EC2 changes these in place, but only on a stopped instance.
_STOPPED = ("InstanceType", "UserData", "EbsOptimized")


def run_request(call: Call, properties: Properties) -> dict[str, Any]:
    """RunInstances input for the properties of an AWS::EC2::Instance."""
    request = without(properties, *_OTHERWISE)
    placement = {
        "AvailabilityZone": properties.get("AvailabilityZone"),
        "GroupName": properties.get("PlacementGroupName"),
        "Tenancy": properties.get("Tenancy"),
        "HostId": properties.get("HostId"),
        "Affinity": properties.get("Affinity"),
    }
    placement = {key: value for key, value in placement.items() if value is not None}
    request |= {"MinCount": 1, "MaxCount": 1, "Placement": placement or None}
    if properties.get("UserData"):
        request["UserData"] = base64.b64decode(properties["UserData"]).decode()
    if properties.get("IamInstanceProfile"):
        request["IamInstanceProfile"] = {"Name": properties["IamInstanceProfile"]}
    if "Monitoring" in properties:
        request["Monitoring"] = {"Enabled": properties["Monitoring"]}
    if properties.get("NetworkInterfaces"):
        request["NetworkInterfaces"] = [_interface(item) for item in properties["NetworkInterfaces"]]
    return request | {"TagSpecifications": _tags(call, properties)}


def _interface(interface: Properties) -> dict[str, Any]:
    renamed = without(interface, "GroupSet")
    return {**renamed, "Groups": interface["GroupSet"]} if "GroupSet" in interface else renamed


def _tags(call: Call, properties: Properties) -> list[dict[str, Any]] | None:
    kinds = ["instance"]
    if str(properties.get("PropagateTagsToVolumeOnCreation", "")).lower() == "true":
        kinds.append("volume")
    tags = tag_list(call, properties)
    return [{"ResourceType": kind, "Tags": tags} for kind in kinds] if tags else None


def _disks(mappings: Any) -> list[Properties]:
    """The mappings without the parts that may change in place."""
    if not isinstance(mappings, list):
        return [{"": str(mappings)}]
    return [{**mapping, "Ebs": without(mapping.get("Ebs") or {}, "DeleteOnTermination")} for mapping in mappings]


def _fates(mappings: list[Properties]) -> list[Properties]:
    return [
        {"DeviceName": mapping["DeviceName"], "Ebs": only(mapping["Ebs"], "DeleteOnTermination")}
        for mapping in mappings
        if "DeleteOnTermination" in (mapping.get("Ebs") or {})
    ]


def _is_known(call: Call, instance_id: str) -> bool:
    """EC2 may not know an instance yet that it has just launched."""
    try:
        call.api("ec2", "describe_instances", InstanceIds=[instance_id])
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidInstanceID.NotFound":
            raise
        return False
    return True


@resource(
    "AWS::EC2::Instance",
    updatable="BlockDeviceMappings DisableApiTermination EbsOptimized IamInstanceProfile "
    "InstanceInitiatedShutdownBehavior InstanceType MetadataOptions Monitoring PropagateTagsToVolumeOnCreation "
    "SecurityGroupIds SourceDestCheck Tags UserData Volumes",
    moving="PublicIp PublicDnsName",
    conditional="BlockDeviceMappings EbsOptimized InstanceType SecurityGroupIds UserData",
)
class Instance(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        instance_id = call.api("ec2", "run_instances", run_request(call, properties))["Instances"][0]["InstanceId"]
        call.announce(instance_id)
        call.wait(lambda: _is_known(call, instance_id), f"{instance_id} known to EC2")
        if "SourceDestCheck" in properties:
            self._set(call, instance_id, SourceDestCheck={"Value": properties["SourceDestCheck"]})
        call.wait(lambda: self._is(call, instance_id, "running"), f"{instance_id} running")
        for volume in properties.get("Volumes") or []:
            call.api("ec2", "attach_volume", volume, InstanceId=instance_id)
        return self._made(call, instance_id)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        changed = {name: new.get(name) for name in {*old, *new} if old.get(name) != new.get(name)}
        if changed.keys() & set(_STOPPED):
            self._change_stopped(call, physical_id, changed)
        if changed.get("SecurityGroupIds"):
            self._set(call, physical_id, Groups=changed["SecurityGroupIds"])
        for name in ("DisableApiTermination", "InstanceInitiatedShutdownBehavior", "SourceDestCheck"):
            if changed.get(name) is not None:
                self._set(call, physical_id, **{name: {"Value": changed[name]}})
        if changed.get("BlockDeviceMappings"):
            self._set(call, physical_id, BlockDeviceMappings=_fates(new["BlockDeviceMappings"]))
        if changed.get("MetadataOptions"):
            call.api("ec2", "modify_instance_metadata_options", changed["MetadataOptions"], InstanceId=physical_id)
        if "IamInstanceProfile" in changed:
            self._change_profile(call, physical_id, changed["IamInstanceProfile"])
        retag(call, physical_id, old, new)
        return self._made(call, physical_id)

    def replaces_for(self, name: str, old: Any, new: Any) -> bool:
        """A change of an instance's disks replaces it, except a change of DeleteOnTermination."""
        return name == "BlockDeviceMappings" and _disks(old) != _disks(new)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("ec2", "terminate_instances", InstanceIds=[physical_id])
        call.wait(lambda: self._is(call, physical_id, "terminated"), f"{physical_id} terminated")

    def _describe(self, call: Call, instance_id: str) -> Any:
        return call.api("ec2", "describe_instances", InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]

    def _is(self, call: Call, instance_id: str, wanted: str) -> bool:
        instance = self._describe(call, instance_id)
        state = instance["State"]["Name"]
        if state == "terminated" and wanted != state:
            reason = instance.get("StateReason", {}).get("Message") or instance.get("StateTransitionReason")
            raise ResourceError(f"Instance {instance_id} terminated instead of becoming {wanted}: {reason}")
        return bool(state == wanted)

    def _set(self, call: Call, instance_id: str, **attribute: Any) -> None:
        call.api("ec2", "modify_instance_attribute", attribute, InstanceId=instance_id)

    def _change_stopped(self, call: Call, instance_id: str, changed: Properties) -> None:
        try:
            call.api("ec2", "stop_instances", InstanceIds=[instance_id])
        except ClientError as error:
            names = ", ".join(sorted(changed.keys() & set(_STOPPED)))
            raise UnchangedError(f"changing {names} needs the instance stopped: {error}") from None
        call.wait(lambda: self._is(call, instance_id, "stopped"), f"{instance_id} stopped")
        for name in _STOPPED:
            value = changed.get(name)
            if value is None:
                continue
            self._set(call, instance_id, **{name: {"Value": base64.b64decode(value) if name == "UserData" else value}})
        call.api("ec2", "start_instances", InstanceIds=[instance_id])
        call.wait(lambda: self._is(call, instance_id, "running"), f"{instance_id} running")

    def _change_profile(self, call: Call, instance_id: str, profile: str | None) -> None:
        of_instance = [{"Name": "instance-id", "Values": [instance_id]}]
        found = call.api("ec2", "describe_iam_instance_profile_associations", Filters=of_instance)
        for association in found["IamInstanceProfileAssociations"]:
            call.api("ec2", "disassociate_iam_instance_profile", AssociationId=association["AssociationId"])
        if profile:
            given = {"IamInstanceProfile": {"Name": profile}}
            call.api("ec2", "associate_iam_instance_profile", given, InstanceId=instance_id)

    def _made(self, call: Call, instance_id: str) -> Made:
        instance = self._describe(call, instance_id)
        attributes = {
            "InstanceId": instance_id,
            "PrivateIp": instance.get("PrivateIpAddress", ""),
            "PrivateDnsName": instance.get("PrivateDnsName", ""),
            "PublicIp": instance.get("PublicIpAddress", ""),
            "PublicDnsName": instance.get("PublicDnsName", ""),
            "AvailabilityZone": instance["Placement"]["AvailabilityZone"],
            "VpcId": instance.get("VpcId", ""),
        }
        return Made(instance_id, attributes)
