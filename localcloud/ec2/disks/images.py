"""Users' machine images: moto keeps the records, the hypervisor their disks."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend
from moto.ec2.models.amis import Ami
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response

from localcloud.ec2.errors import Ec2Error
from localcloud.runtime import Runtime

_COPIED = ("image_type", "hypervisor", "root_device_name", "root_device_type", "sriov", "boot_mode")

_ROOT_GIB = 8  # Ubuntu's and Amazon Linux's


def check_launchable(backend: EC2Backend, image_id: str) -> None:
    """Raises RunInstances' error for an image that is unknown, not ready yet, or deregistered."""
    found: list[Ami] = backend.describe_images(ami_ids=[image_id])
    if not found or found[0].state != "available":
        state = found[0].state if found else "deregistered"
        raise Ec2Error("InvalidAMIID.Unavailable", f"The image ID '{image_id}' is not available: it is {state}")


def root_size_gib(image: Ami) -> int:
    """The size of an image's root device; moto gives all images the same size."""
    return int(image.ebs_snapshot.volume.size) if _is_own(image) else _ROOT_GIB


class ImageActions(EC2Response):
    runtime: Runtime

    def create_image(self) -> ActionResult:
        backend, name = self.ec2_backend, str(self._get_param("Name") or "")
        instance = backend.get_instance(self._get_param("InstanceId"))
        _check(backend, instance, name)
        self.error_on_dryrun()
        image = backend.create_image(instance.id, name, self._get_param("Description") or "", [])
        tags = self._parse_tag_specification()
        image.add_tags(tags.get("image", {}))
        image.ebs_snapshot.add_tags(tags.get("snapshot", {}))
        _resemble(image, backend.amis.get(instance.image_id), instance)
        image.state = "pending"
        reboots = instance.state == "running" and not self._get_param("NoReboot")
        threading.Thread(
            target=_copy, args=(self.runtime, instance.id, image, reboots), name=f"image {image.id}", daemon=True
        ).start()
        return ActionResult({"ImageId": image.id})

    def deregister_image(self) -> ActionResult:
        image_id = self._get_param("ImageId")
        image = self.ec2_backend.amis.get(image_id)
        result = super().deregister_image()
        self.runtime.hypervisor.delete_image(image_id)
        answer: dict[str, Any] = {"Return": True}
        if image and self._get_param("DeleteAssociatedSnapshots"):
            snapshot = image.ebs_snapshot.id
            self.ec2_backend.delete_snapshot(snapshot)
            answer["DeleteSnapshotResults"] = [{"SnapshotId": snapshot, "ReturnCode": "success"}]
            return ActionResult(answer)
        return result


def _check(backend: EC2Backend, instance: Instance, name: str) -> None:
    if not 3 <= len(name) <= 128:
        raise Ec2Error("InvalidAMIName.Malformed", "AMI names must be between 3 and 128 characters long")
    if instance.state not in ("running", "stopping", "stopped"):
        raise Ec2Error(
            "IncorrectInstanceState", f"Instance '{instance.id}' is not 'stopped' or 'running': it is {instance.state}"
        )
    same = next((image.id for image in backend.amis.values() if image.name == name and _is_own(image)), None)
    if same:
        raise Ec2Error("InvalidAMIName.Duplicate", f"AMI name {name} is already in use by AMI {same}")


def _is_own(image: Ami) -> bool:
    return image.owner_alias is None


def _resemble(image: Ami, source: Ami | None, instance: Instance) -> None:
    """Fields that moto leaves empty: they come from the instance's image, with the size of the instance's disk."""
    for attribute in _COPIED if source else ():
        setattr(image, attribute, getattr(source, attribute))
    image.architecture = "x86_64"
    image.virtualization_type = "hvm"
    root = instance.block_device_mapping.get(instance.root_device_name)
    if root and root.size:
        image.ebs_snapshot.volume.size = int(root.size)


def _copy(runtime: Runtime, instance_id: str, image: Ami, reboots: bool) -> None:
    """Runs in the background, because it may take a while and AWS's CreateImage does not wait either."""
    state = "available"
    try:
        runtime.hypervisor.create_image(instance_id, image.id)
        if reboots:
            runtime.hypervisor.reboot(instance_id)
    except Exception:  # clients read the state; the server's log has the reason
        print(f"image {image.id}:", file=sys.stderr)
        traceback.print_exc(file=sys.stderr)
        state = "failed"
    with runtime.locks.whole:
        image.state = state
