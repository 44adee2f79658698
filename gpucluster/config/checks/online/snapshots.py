"""Checks the snapshot that a new cluster restores. An existing cluster no longer needs it."""

from __future__ import annotations

from gpucluster.config.checks.online import keys
from gpucluster.config.checks.online.account import Account, Answer, deployed
from gpucluster.config.checks.online.things import KEY, SNAPSHOT
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import HeadNode
from gpucluster.config.validators import Findings, Validators

validator = Validators("Snapshot (asks AWS)", needs="aws")
ENCRYPTION = "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html"
SNAPSHOT_KEYS = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Snapshot.html"


@validator("snapshot-exists", "error InvalidSnapshot.NotFound of EC2 CreateVolume")
def snapshot_exists(head: HeadNode, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The named snapshot exists in the region, and the account may use it."""
    if head.snapshot_id and not deployed(account, config) and SNAPSHOT.look_up(account, head.snapshot_id) is None:
        yield Finding(
            (*path, "snapshot_id"),
            f"the account sees no {head.snapshot_id} in {config.region}",
            "aws ec2 describe-snapshots --owner-ids self lists the snapshots; "
            "aws ec2 copy-snapshot copies one from another region",
        )


@validator("snapshot-completed", f"error IncorrectState of EC2 CreateVolume; {SNAPSHOT_KEYS}: status, storageTier")
def snapshot_completed(head: HeadNode, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The snapshot is completed and not archived: no volume can be created from another one."""
    found = _snapshot(head, config, account)
    if found.get("State", "completed") != "completed":
        yield Finding(
            (*path, "snapshot_id"),
            f"{head.snapshot_id} is {found['State']}",
            f"aws ec2 wait snapshot-completed --snapshot-ids {head.snapshot_id}",
        )
    elif found.get("StorageTier") == "archive":
        yield Finding(
            (*path, "snapshot_id"),
            f"{head.snapshot_id} is archived",
            f"aws ec2 restore-snapshot-tier --permanent-restore --snapshot-id {head.snapshot_id}",
        )


@validator(
    "snapshot-fits-volume",
    "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html: Size, at least the snapshot's",
)
def snapshot_fits_volume(head: HeadNode, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """The volume is at least as large as the snapshot."""
    size = _snapshot(head, config, account).get("VolumeSize", 0)
    if size > head.volume_gib:
        yield Finding(
            (*path, "volume_gib"),
            f"{head.snapshot_id} is of a volume of {size} GiB, got {head.volume_gib}",
            f"write volume_gib: {size} or more",
        )


@validator("snapshot-key", f"{ENCRYPTION}: kms:CreateGrant; {SNAPSHOT_KEYS}: kmsKeyId")
def snapshot_key(head: HeadNode, path: Path, config: ClusterConfig, account: Account) -> Findings:
    """A snapshot with a KMS key of yours needs kms_key_arn, unless the key's policy admits everybody in the account:
    the head node may use no other key of yours."""
    key_id = _snapshot(head, config, account).get("KmsKeyId")
    if key_id is None or config.security.kms_key_arn:
        return
    if (KEY.look_up(account, key_id) or {}).get("KeyManager") == "AWS":
        return
    if not keys.admits_everybody(account, key_id):
        yield Finding(
            (*path, "snapshot_id"),
            f"{head.snapshot_id} is encrypted with {key_id}, which the head node's role may not use",
            f"write security: {{kms_key_arn: {key_id}}}, or another key of yours",
        )


def _snapshot(head: HeadNode, config: ClusterConfig, account: Account) -> Answer:
    """Empty if none is named, if it does not exist, or if the cluster exists already."""
    if head.snapshot_id is None or deployed(account, config):
        return {}
    return SNAPSHOT.look_up(account, head.snapshot_id) or {}
