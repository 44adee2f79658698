"""EBS volumes: moto keeps the records, the hypervisor the block devices."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response

from localcloud.ec2.disks import block_devices
from localcloud.ec2.errors import Ec2Error
from localcloud.ec2.validation.volumes import DEFAULT_IOPS, gets_default_iops
from localcloud.runtime import Runtime


class VolumeActions(EC2Response):
    runtime: Runtime

    def get_ebs_default_kms_key_id(self) -> ActionResult:
        """The default of an account that has not chosen another key, as in the AWS CLI's reference."""
        return ActionResult({"KmsKeyId": "alias/aws/ebs"})

    def create_volume(self) -> ActionResult:
        result = super().create_volume()
        volume: Any = result.result
        if volume.snapshot_id:
            block_devices.restore(self.runtime.hypervisor, volume.snapshot_id, volume.id, int(volume.size))
        return result

    def create_snapshot(self) -> ActionResult:
        result = super().create_snapshot()
        snapshot: Any = result.result
        snapshot.status = "pending"

        def done(made: bool) -> None:
            with self.runtime.locks.whole:
                snapshot.status = "completed" if made else "error"

        block_devices.snapshot(self.runtime.hypervisor, snapshot.volume.id, snapshot.id, done)
        return result

    def delete_snapshot(self) -> ActionResult:
        snapshot_id = self._get_param("SnapshotId")
        result = super().delete_snapshot()
        block_devices.delete_snapshot(self.runtime.hypervisor, snapshot_id)
        return result

    def attach_volume(self) -> ActionResult:
        volume = self.ec2_backend.get_volume(self._get_param("VolumeId"))
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        device = self._get_param("Device")
        self._check_attachable(volume, instance, device)
        result = super().attach_volume()
        block_devices.attach(self.runtime.hypervisor, instance.id, volume.id, int(volume.size), device)
        return result

    def _check_attachable(self, volume: Any, instance: Any, device: str) -> None:
        if volume.attachment:
            raise Ec2Error("VolumeInUse", f"{volume.id} is already attached to an instance")
        if instance.state not in ("running", "stopped"):
            raise Ec2Error("IncorrectState", f"Instance '{instance.id}' is not 'running'.")
        if device in instance.block_device_mapping:
            raise Ec2Error(
                "InvalidParameterValue",
                f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use",
            )
        if volume.zone.name != instance.placement.zone:
            raise Ec2Error(
                "InvalidVolume.ZoneMismatch",
                f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}'",
            )

    def detach_volume(self) -> ActionResult:
        volume = self.ec2_backend.get_volume(self._get_param("VolumeId"))
        if not volume.attachment:
            raise Ec2Error("IncorrectState", f"Volume '{volume.id}' is in the 'available' state.")
        instance = volume.attachment.instance
        instance_id = instance.id
        if self._get_param("InstanceId") not in (None, instance_id):
            raise Ec2Error(
                "InvalidAttachment.NotFound",
                f"Volume '{volume.id}' is not attached to instance '{self._get_param('InstanceId')}'.",
            )
        if volume.attachment.device == instance.root_device_name and instance.state != "stopped":
            raise Ec2Error(
                "OperationNotPermitted", f"Unable to detach root volume '{volume.id}' from instance '{instance_id}'"
            )
        self.params["InstanceId"] = instance_id
        result = super().detach_volume()
        block_devices.detach(self.runtime.hypervisor, instance_id, volume.id)
        return result

    def modify_volume(self) -> ActionResult:
        volume, size = self.ec2_backend.get_volume(self._get_param("VolumeId")), self._get_param("Size")
        if size is not None and int(size) < int(volume.size):
            raise Ec2Error("InvalidParameterValue", "New size cannot be smaller than existing size")
        if gets_default_iops(volume, self.params):
            self.params["Iops"] = DEFAULT_IOPS
        result = super().modify_volume()
        if size is not None:
            block_devices.grow(self.runtime.hypervisor, volume.id, int(size))
        return result

    def delete_volume(self) -> ActionResult:
        volume_id = self._get_param("VolumeId")
        result = super().delete_volume()
        block_devices.delete(self.runtime.hypervisor, volume_id)
        return result
