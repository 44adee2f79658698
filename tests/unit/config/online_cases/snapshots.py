from __future__ import annotations

import json
from typing import Any

from validator_cases.case import cluster

from online_cases.case import Answers, Online, deployed

ID = "snap-0123456789abcdef0"
RESTORED = cluster(head_node={"snapshot_id": ID, "volume_gib": 200})
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def snapshot(**keys: Any) -> Answers:
    """As in the AWS CLI's example of describe-snapshots."""
    found = {"SnapshotId": ID, "State": "completed", "StorageTier": "standard", "VolumeSize": 200, **keys}
    return {"ec2 describe_snapshots": {"Snapshots": [found]}}


def encrypted(manager: str, admits: str = "arn:aws:iam::123456789012:root") -> Answers:
    """`admits`: the principal of the key's policy."""
    statement = {"Effect": "Allow", "Principal": {"AWS": admits}}
    return {
        **snapshot(Encrypted=True, KmsKeyId=KEY),
        "kms describe_key": {"KeyMetadata": {"KeyId": "1234abcd", "KeyManager": manager}},
        "kms get_key_policy": {"Policy": json.dumps({"Statement": [statement]})},
    }


GONE: Answers = {"ec2 describe_snapshots": "InvalidSnapshot.NotFound"}
CASES: dict[str, Online | list[Online]] = {
    "snapshot-exists": [
        Online(
            RESTORED, key="head_node.snapshot_id", says=f"the account sees no {ID} in us-east-1",
            fails=GONE, passes=snapshot(),
        ),
        Online(  # a daily snapshot is deleted after some days
            RESTORED, key="head_node.snapshot_id", says=f"the account sees no {ID} in us-east-1",
            fails=GONE, passes={**GONE, **deployed("GpuCluster")},
        ),
    ],
    "snapshot-completed": [
        Online(
            RESTORED, key="head_node.snapshot_id", says=f"{ID} is pending",
            fails=snapshot(State="pending"), passes=snapshot(),
        ),
        Online(
            RESTORED, key="head_node.snapshot_id", says=f"{ID} is archived",
            fails=snapshot(StorageTier="archive"), passes=snapshot(),
        ),
    ],
    "snapshot-fits-volume": Online(
        RESTORED, key="head_node.volume_gib", says=f"{ID} is of a volume of 500 GiB, got 200",
        fails=snapshot(VolumeSize=500), passes=snapshot(VolumeSize=100),
    ),
    "snapshot-key": [
        Online(
            RESTORED, key="head_node.snapshot_id",
            says=f"{ID} is encrypted with {KEY}, which the head node's role may not use",
            fails=encrypted("CUSTOMER"), passes=passes,
        )
        for passes in (encrypted("AWS"), encrypted("CUSTOMER", admits="*"))
    ],
}  # fmt: skip
