"""Checks whether the head node can have the EBS volumes of `storage`: those that exist, and snapshots of new ones."""

from __future__ import annotations

from gpucluster.config.checks.online import keys
from gpucluster.config.checks.online.account import Account, Answer, deployed, zone
from gpucluster.config.checks.online.things import INSTANCE, KEY, SNAPSHOT, VOLUME
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.storage import Ebs
from gpucluster.config.validators import Findings, Validators

validator = Validators("Volumes (ask AWS)", needs="aws")
VOLUME_API = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Volume.html"
ENCRYPTION = "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html: kms:CreateGrant"


@validator("volume-exists", "error InvalidVolume.NotFound of EC2 AttachVolume")
def volume_exists(storage: Ebs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The account sees the named EBS volume in the region."""
    if storage.volume_id and VOLUME.look_up(account, storage.volume_id) is None:
        yield Finding(
            (*path, "volume_id"),
            f"the account sees no {storage.volume_id} in {config.region}",
            f"aws ec2 describe-volumes --region {config.region} lists those that it sees",
        )


@validator("volume-zone", "error InvalidVolume.ZoneMismatch of EC2 AttachVolume")
def volume_zone(storage: Ebs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The EBS volume is in the cluster's zone: EC2 attaches it to no instance of another one."""
    found, here = _volume(storage, account), zone(account, config)
    if found and found["AvailabilityZone"] != here:
        there = found["AvailabilityZone"]
        yield Finding(
            (*path, "volume_id"),
            f"{storage.volume_id} is in {there}, the cluster in {here}",
            f"write availability_zone: {there}, or make a snapshot of it and name that as snapshot_id",
        )


@validator("volume-free", f"error VolumeInUse of EC2 AttachVolume; {VOLUME_API}: State")
def volume_free(storage: Ebs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The EBS volume is available, or this cluster's head node has it. No other instance has it, not even by
    Multi-Attach: two kernels would destroy its file system."""
    found = _volume(storage, account)
    for each in found.get("Attachments", []):
        instance = str(each["InstanceId"])
        if each.get("State") != "detached" and not _is_head(account, config, instance):
            command = f"unmount it there; then aws ec2 detach-volume --volume-id {storage.volume_id}"
            yield Finding((*path, "volume_id"), f"{storage.volume_id} is attached to {instance}", command)
            return
    if found and found["State"] not in ("available", "in-use"):
        yield Finding((*path, "volume_id"), f"{storage.volume_id} is in the state {found['State']}", "name another one")


def _is_head(account: Account, config: ClusterConfig, instance_id: str) -> bool:
    found = INSTANCE.look_up(account, instance_id) or {"Instances": []}
    ours = {"gpucluster:cluster": config.name, "gpucluster:role": "head"}
    tags = [{tag["Key"]: tag["Value"] for tag in each.get("Tags", [])} for each in found["Instances"]]
    return any(ours.items() <= each.items() for each in tags)


@validator("volume-key", f"{ENCRYPTION}; {VOLUME_API}: kmsKeyId")
def volume_key(storage: Ebs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """An EBS volume with a KMS key of yours has the key of kms_key_arn, or the key's policy admits everybody in the
    account: the head node may use no other key of yours."""
    key_id = _volume(storage, account).get("KmsKeyId")
    if key_id is None or key_id == config.security.kms_key_arn:
        return
    if (KEY.look_up(account, key_id) or {}).get("KeyManager") == "AWS" or keys.admits_everybody(account, key_id):
        return
    yield Finding(
        (*path, "volume_id"),
        f"{storage.volume_id} is encrypted with {key_id}, which the head node's role may not use",
        f"write security: {{kms_key_arn: {key_id}}}",
    )


@validator("ebs-snapshot-exists", "error InvalidSnapshot.NotFound of EC2 CreateVolume")
def snapshot_exists(storage: Ebs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The snapshot of a new EBS volume exists in the region, and is completed."""
    if not storage.snapshot_id or deployed(account, config):
        return
    found = SNAPSHOT.look_up(account, storage.snapshot_id)
    if found is None:
        said = f"the account sees no {storage.snapshot_id} in {config.region}"
        yield Finding((*path, "snapshot_id"), said, "aws ec2 copy-snapshot copies one from another region")
    elif found.get("State", "completed") != "completed":
        command = f"aws ec2 wait snapshot-completed --snapshot-ids {storage.snapshot_id}"
        yield Finding((*path, "snapshot_id"), f"{storage.snapshot_id} is {found['State']}", command)


@validator(
    "ebs-snapshot-fits",
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html: Size, at least the snapshot's",
)
def snapshot_fits(storage: Ebs, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A new EBS volume is at least as large as its snapshot."""
    if not storage.snapshot_id or not storage.gib or deployed(account, config):
        return
    size = (SNAPSHOT.look_up(account, storage.snapshot_id) or {}).get("VolumeSize", 0)
    if size > storage.gib:
        said = f"{storage.snapshot_id} is of a volume of {size} GiB, got {storage.gib}"
        yield Finding((*path, "gib"), said, f"write gib: {size} or more, or remove it")


def _volume(storage: Ebs, account: Account) -> Answer:
    """Empty if none is named, or if it does not exist."""
    return VOLUME.look_up(account, storage.volume_id) or {}
