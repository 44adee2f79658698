"""EBS: sizes, IOPS and throughput by type.

https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html and EC2's API reference, CreateVolume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moto.ec2.models import EC2Backend

from localcloud.ec2.validation.model import invalid
from localcloud.validation.refusal import Refusal


@dataclass(frozen=True)
class Limits:
    least_gib: int
    most_gib: int
    least_iops: int = 0
    most_iops: int = 0
    """0: requests must not set IOPS."""
    iops_for_each_gib: float = 0
    needs_iops: bool = False
    most_mib_s: int = 0


TYPES = {
    "gp2": Limits(1, 16384),
    "gp3": Limits(1, 65536, 3000, 80000, 500, most_mib_s=2000),
    "io1": Limits(4, 16384, 100, 64000, 50, needs_iops=True),
    "io2": Limits(4, 65536, 100, 256000, 1000, needs_iops=True),
    "st1": Limits(125, 16384),
    "sc1": Limits(125, 16384),
    "standard": Limits(1, 1024),
}
DEFAULT_IOPS, _LEAST_MIB_S = 3000, 125
_MIB_S_FOR_EACH_IOPS = 0.25
_FREE_IOPS = {"gp3": 3000}  # of any size


def check(
    size_gib: int | None, volume_type: str, iops: int | None, mib_s: int | None, *, has_default: bool = False
) -> None:
    """Raises EC2's error for a volume that is not possible. `has_default`: the request need not set IOPS."""
    limits = TYPES.get(volume_type)
    if limits is None:
        raise invalid("volumeType", volume_type, f"Allowed values: {', '.join(TYPES)}.")
    if size_gib is not None:
        _check_size(size_gib, volume_type, limits)
    if limits.needs_iops and not iops and not has_default:
        raise Refusal(
            "MissingParameter", f"The request must contain the parameter iops for the volume type {volume_type}"
        )
    if iops:
        _check_iops(size_gib, volume_type, iops, limits)
    if mib_s:
        _check_throughput(volume_type, mib_s, iops or DEFAULT_IOPS, limits)


def _check_size(size_gib: int, volume_type: str, limits: Limits) -> None:
    if size_gib > limits.most_gib:
        why = f"too large for volume type {volume_type}; maximum is {limits.most_gib}GiB"
        raise Refusal("InvalidParameterValue", f"Volume of {size_gib}GiB is {why}")
    if size_gib < limits.least_gib:
        why = f"too small for volume type {volume_type}; minimum is {limits.least_gib}GiB"
        raise Refusal("InvalidParameterValue", f"Volume of {size_gib}GiB is {why}")


def _check_iops(size_gib: int | None, volume_type: str, iops: int, limits: Limits) -> None:
    if not limits.most_iops:
        raise Refusal("InvalidParameterCombination", f"The parameter iops is not supported for {volume_type} volumes.")
    if iops < limits.least_iops:
        raise Refusal("InvalidParameterValue", f"Volume iops of {iops} is too low; minimum is {limits.least_iops}.")
    if iops > limits.most_iops:
        raise Refusal("InvalidParameterValue", f"Volume iops of {iops} is too high; maximum is {limits.most_iops}.")
    allowed = max(_FREE_IOPS.get(volume_type, 0), (size_gib or 0) * limits.iops_for_each_gib)
    if size_gib and iops > allowed:
        raise Refusal(
            "InvalidParameterValue",
            f"Iops to volume size ratio of {iops / size_gib:f} is too high; maximum is {limits.iops_for_each_gib:f}",
        )


def _check_throughput(volume_type: str, mib_s: int, iops: int, limits: Limits) -> None:
    if not limits.most_mib_s:
        raise Refusal(
            "InvalidParameterCombination", f"The parameter throughput is not supported for {volume_type} volumes."
        )
    if not _LEAST_MIB_S <= mib_s <= limits.most_mib_s:
        raise invalid("throughput", mib_s, f"It must be between {_LEAST_MIB_S} and {limits.most_mib_s} MiB/s.")
    if mib_s > iops * _MIB_S_FOR_EACH_IOPS:
        raise Refusal(
            "InvalidParameterValue",
            f"Throughput (MiBps) to iops ratio of {mib_s / iops:f} is too high; maximum is "
            f"{_MIB_S_FOR_EACH_IOPS:f} MiBps per iops.",
        )


def create(backend: EC2Backend, given: dict[str, Any]) -> None:
    zone, zones = given.get("AvailabilityZone"), {each.name for each in backend.describe_availability_zones()}
    if zone is None and not given.get("AvailabilityZoneId"):
        raise Refusal("MissingParameter", "The request must contain the parameter AvailabilityZone")
    if zone and zone not in zones:
        raise Refusal("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")
    snapshot = backend.snapshots.get(given.get("SnapshotId") or "")
    if snapshot is not None and snapshot.status != "completed":  # github.com/velero-io/velero/issues/1799
        raise Refusal("IncorrectState", f"Snapshot is in invalid state - {snapshot.status}")
    size = given.get("Size")
    if size is None and snapshot is None:
        raise Refusal("MissingParameter", "The request must contain the parameter size or snapshotId")
    if size is not None and snapshot is not None and int(size) < int(snapshot.volume.size):
        raise Refusal(
            "InvalidParameterValue",
            f"The volume size is invalid for the snapshot: {size} < {snapshot.volume.size}",
        )
    if given.get("KmsKeyId") and not given.get("Encrypted"):
        raise Refusal(
            "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."
        )
    if snapshot is not None and snapshot.encrypted and given.get("Encrypted") is False:
        raise Refusal("InvalidParameterCombination", "A volume of an encrypted snapshot cannot be unencrypted.")
    wanted = int(size) if size is not None else int(snapshot.volume.size) if snapshot else None
    check(wanted, given.get("VolumeType") or "gp2", given.get("Iops"), given.get("Throughput"))


def modify(backend: EC2Backend, given: dict[str, Any]) -> None:
    volume = backend.get_volume(str(given["VolumeId"]))
    if not any(given.get(name) for name in ("Size", "VolumeType", "Iops", "Throughput", "MultiAttachEnabled")):
        raise Refusal("MissingParameter", "The request must contain the parameter size, volumeType or iops")
    volume_type = given.get("VolumeType") or volume.volume_type or "gp2"
    kept = volume_type == volume.volume_type
    iops = given.get("Iops") or (volume.iops if kept and TYPES.get(volume_type, TYPES["gp2"]).most_iops else None)
    throughput = given.get("Throughput") or (getattr(volume, "throughput", None) if kept else None)
    check(int(given.get("Size") or volume.size), volume_type, iops, throughput, has_default=True)


def gets_default_iops(volume: Any, given: dict[str, Any]) -> bool:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyVolume.html: 3,000 after a change of type."""
    limits = TYPES.get(given.get("VolumeType") or volume.volume_type)
    changed = given.get("VolumeType") not in (None, "", volume.volume_type)
    return changed and not given.get("Iops") and limits is not None and bool(limits.most_iops)


def delete(backend: EC2Backend, given: dict[str, Any]) -> None:
    volume = backend.get_volume(str(given["VolumeId"]))
    if volume.attachment:
        raise Refusal("VolumeInUse", f"Volume {volume.id} is currently attached to {volume.attachment.instance.id}")


def delete_snapshot(backend: EC2Backend, given: dict[str, Any]) -> None:
    snapshot_id = str(given["SnapshotId"])
    for image in backend.amis.values():
        if image.ebs_snapshot.id == snapshot_id:
            raise Refusal("InvalidSnapshot.InUse", f"The snapshot {snapshot_id} is currently in use by {image.id}")
