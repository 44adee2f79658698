"""Disks and file systems: AWS::EC2::Volume and its attachment, EFS, FSx, DLM."""

from __future__ import annotations

from typing import Any

from localcloud.cloudformation.errors import ResourceError
from localcloud.cloudformation.resources.ec2 import retag, tag_specifications
from localcloud.cloudformation.resources.registry import (
    Call,
    Handler,
    Made,
    Properties,
    change_tags,
    only,
    resource,
    tag_list,
    tag_map,
    without,
)
from localcloud.filesystems.lustre import CHANGEABLE


@resource(
    "AWS::EC2::Volume",
    updatable="AutoEnableIO Iops MultiAttachEnabled Size Tags Throughput VolumeType",
    delete="ec2 delete_volume VolumeId",
)
class Volume(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "AutoEnableIO", "Tags")
        specifications = tag_specifications(call, properties, "volume")
        volume_id = call.api("ec2", "create_volume", given, TagSpecifications=specifications)["VolumeId"]
        call.announce(volume_id)
        call.wait(lambda: _volume(call, volume_id)["State"] == "available", f"{volume_id} becoming available")
        return Made(volume_id, {"VolumeId": volume_id})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        changed = {
            name: new[name]
            for name in ("Size", "VolumeType", "Iops", "Throughput")
            if name in new and new[name] != old.get(name)
        }
        if changed:
            call.api("ec2", "modify_volume", changed, VolumeId=physical_id)
        retag(call, physical_id, old, new)
        return Made(physical_id, {"VolumeId": physical_id})

    def snapshot(self, call: Call, physical_id: str) -> None:
        description = f"{call.stack_name}-{call.logical_id}"
        made = call.api("ec2", "create_snapshot", VolumeId=physical_id, Description=description)["SnapshotId"]
        call.wait(lambda: _snapshot(call, made)["State"] == "completed", f"{made} being completed")


def _volume(call: Call, volume_id: str) -> Any:
    return call.api("ec2", "describe_volumes", VolumeIds=[volume_id])["Volumes"][0]


def _snapshot(call: Call, snapshot_id: str) -> Any:
    return call.api("ec2", "describe_snapshots", SnapshotIds=[snapshot_id])["Snapshots"][0]


@resource("AWS::EC2::VolumeAttachment")
class VolumeAttachment(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        call.api("ec2", "attach_volume", properties)
        volume_id = properties["VolumeId"]
        call.wait(lambda: _volume(call, volume_id)["State"] == "in-use", f"{volume_id} being attached")
        return Made(f"{volume_id}|{properties['InstanceId']}")

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        volume_id = properties["VolumeId"]
        if _volume(call, volume_id)["State"] == "available":
            return  # the instance has been terminated, and the attachment with it
        call.api("ec2", "detach_volume", only(properties, "VolumeId", "InstanceId"))
        call.wait(lambda: _volume(call, volume_id)["State"] == "available", f"{volume_id} being detached")


@resource(
    "AWS::EFS::FileSystem",
    updatable="BackupPolicy FileSystemTags LifecyclePolicies ProvisionedThroughputInMibps ThroughputMode",
    delete="efs delete_file_system FileSystemId",
)
class EfsFileSystem(Handler):
    _elsewhere = ("FileSystemTags", "LifecyclePolicies", "BackupPolicy", "FileSystemPolicy", "FileSystemProtection")

    def create(self, call: Call, properties: Properties) -> Made:
        tags = tag_list(call, self._tags(properties))
        given = without(properties, *self._elsewhere, "BypassPolicyLockoutSafetyCheck")
        made = call.api("efs", "create_file_system", given, CreationToken=call.name(), Tags=tags)
        call.announce(made["FileSystemId"])
        self._configure(call, made["FileSystemId"], properties)
        return self._made(call, made["FileSystemId"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        throughput = only(new, "ThroughputMode", "ProvisionedThroughputInMibps")
        if throughput != only(old, "ThroughputMode", "ProvisionedThroughputInMibps"):
            call.api("efs", "update_file_system", throughput, FileSystemId=physical_id)
        before, after = self._tags(old), self._tags(new)
        change_tags(call, "efs", "untag_resource", "tag_resource", before, after, ResourceId=physical_id)
        self._configure(call, physical_id, new)
        return self._made(call, physical_id)

    @staticmethod
    def _tags(properties: Properties) -> dict[str, Any]:
        return {"Tags": properties.get("FileSystemTags")}

    def _configure(self, call: Call, system_id: str, properties: Properties) -> None:
        policies = properties.get("LifecyclePolicies")
        if policies:
            call.api("efs", "put_lifecycle_configuration", FileSystemId=system_id, LifecyclePolicies=policies)
        if properties.get("FileSystemPolicy"):
            policy = properties["FileSystemPolicy"]
            call.api("efs", "put_file_system_policy", FileSystemId=system_id, Policy=policy)
        if properties.get("BackupPolicy"):
            call.api("efs", "put_backup_policy", FileSystemId=system_id, BackupPolicy=properties["BackupPolicy"])

    def _made(self, call: Call, system_id: str) -> Made:
        arn = f"arn:aws:elasticfilesystem:{call.region}:{call.account_id}:file-system/{system_id}"
        return Made(system_id, {"FileSystemId": system_id, "Arn": arn})


@resource("AWS::EFS::MountTarget", updatable="SecurityGroups", delete="efs delete_mount_target MountTargetId")
class EfsMountTarget(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        made = call.api("efs", "create_mount_target", properties)
        return Made(made["MountTargetId"], {"Id": made["MountTargetId"], "IpAddress": made.get("IpAddress", "")})

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        given = {"SecurityGroups": new.get("SecurityGroups")}
        call.api("efs", "modify_mount_target_security_groups", given, MountTargetId=physical_id)
        return Made(physical_id, {"Id": physical_id})


@resource("AWS::FSx::FileSystem", updatable="FileSystemTypeVersion StorageCapacity LustreConfiguration Tags")
class FsxFileSystem(Handler):
    def replaces_for(self, name: str, old: Any, new: Any) -> bool:
        """Only the parts of LustreConfiguration that UpdateFileSystem accepts change in place."""
        return name == "LustreConfiguration" and bool(set(_changed(old, new)) - CHANGEABLE)

    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "Tags")
        system = call.api("fsx", "create_file_system", given, Tags=tag_list(call, properties))["FileSystem"]
        system_id = system["FileSystemId"]
        call.announce(system_id)
        call.wait(lambda: self._available(call, system_id), f"{system_id} becoming available")
        return self._made(call, system_id)

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        changed = only(_changed(old, new), "StorageCapacity", "FileSystemTypeVersion")
        lustre = _changed(old.get("LustreConfiguration"), new.get("LustreConfiguration"))
        if changed or lustre:
            call.api("fsx", "update_file_system", changed, FileSystemId=physical_id, LustreConfiguration=lustre or None)
        made = self._made(call, physical_id)
        _retag_fsx(call, str(made.attributes["ResourceARN"]), old, new)
        return made

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("fsx", "delete_file_system", FileSystemId=physical_id)
        call.wait(lambda: self._find(call, physical_id) is None, f"{physical_id} going away")

    def _find(self, call: Call, system_id: str) -> Any | None:
        found = call.if_there("fsx", "describe_file_systems", FileSystemIds=[system_id]).get("FileSystems")
        return found[0] if found else None

    def _available(self, call: Call, system_id: str) -> bool:
        system = self._find(call, system_id)
        if system is None or system.get("Lifecycle") == "FAILED":
            details = (system or {}).get("FailureDetails", {})
            raise ResourceError(f"{system_id} failed: {details.get('Message', 'no reason given')}")
        return bool(system.get("Lifecycle", "AVAILABLE") == "AVAILABLE")

    def _made(self, call: Call, system_id: str) -> Made:
        system = self._find(call, system_id) or {}
        attributes = {
            "DNSName": system.get("DNSName", ""),
            "LustreMountName": system.get("LustreConfiguration", {}).get("MountName", ""),
            "ResourceARN": system.get("ResourceARN", ""),
        }
        return Made(system_id, attributes)


def _changed(old: Properties | None, new: Properties | None) -> dict[str, Any]:
    """New or changed values; None for removed ones."""
    before, after = old or {}, new or {}
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}


def _retag_fsx(call: Call, arn: str, old: Properties, new: Properties) -> None:
    change_tags(call, "fsx", "untag_resource", "tag_resource", old, new, ResourceARN=arn)


@resource("AWS::FSx::DataRepositoryAssociation", updatable="ImportedFileChunkSize S3 Tags")
class FsxDataRepositoryAssociation(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = without(properties, "Tags")
        made = call.api("fsx", "create_data_repository_association", given, Tags=tag_list(call, properties))
        association_id = made["Association"]["AssociationId"]
        call.announce(association_id)
        call.wait(lambda: self._state(call, association_id) == "AVAILABLE", f"{association_id} becoming available")
        return self._made(made["Association"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        given = only(new, "ImportedFileChunkSize", "S3")
        made = call.api("fsx", "update_data_repository_association", given, AssociationId=physical_id)["Association"]
        _retag_fsx(call, made["ResourceARN"], old, new)
        return self._made(made)

    def delete(self, call: Call, physical_id: str, properties: Properties) -> None:
        call.api("fsx", "delete_data_repository_association", AssociationId=physical_id)
        call.wait(lambda: self._state(call, physical_id) is None, f"{physical_id} going away")

    def _state(self, call: Call, association_id: str) -> str | None:
        found = call.if_there("fsx", "describe_data_repository_associations", AssociationIds=[association_id])
        if not found.get("Associations"):
            return None
        state = str(found["Associations"][0]["Lifecycle"])
        if state in ("FAILED", "MISCONFIGURED"):
            raise ResourceError(f"{association_id} is {state}")
        return state

    def _made(self, association: Any) -> Made:
        attributes = {name: association.get(name, "") for name in ("AssociationId", "ResourceARN")}
        return Made(association["AssociationId"], attributes)


@resource(
    "AWS::DLM::LifecyclePolicy",
    updatable="Description ExecutionRoleArn PolicyDetails State Tags",
    delete="dlm delete_lifecycle_policy PolicyId",
)
class DlmLifecyclePolicy(Handler):
    def create(self, call: Call, properties: Properties) -> Made:
        given = {"State": "ENABLED", **without(properties, "Tags")}
        made = call.api("dlm", "create_lifecycle_policy", given, Tags=tag_map(call, properties))
        return self._made(call, made["PolicyId"])

    def update(self, call: Call, physical_id: str, old: Properties, new: Properties) -> Made:
        call.api("dlm", "update_lifecycle_policy", without(new, "Tags"), PolicyId=physical_id)
        return self._made(call, physical_id)

    def _made(self, call: Call, policy_id: str) -> Made:
        return Made(policy_id, {"Arn": f"arn:aws:dlm:{call.region}:{call.account_id}:policy/{policy_id}"})
