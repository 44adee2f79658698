from __future__ import annotations

import json
from typing import Any

from validator_cases.case import Keys, cluster

from online_cases.case import Answers, Online, deployed

ID, SNAPSHOT = "vol-0123456789abcdef0", "snap-0123456789abcdef0"
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def having(**keys: Any) -> Keys:
    return cluster(availability_zone="us-east-1a", storage=[{"mount": "/data", "type": "ebs", **keys}])


THERE = having(volume_id=ID)


def volume(*attached: str, **keys: Any) -> Answers:
    """As in the AWS CLI's example of describe-volumes. `attached`: instances, the last with the given tags."""
    found = {
        "VolumeId": ID,
        "AvailabilityZone": "us-east-1a",
        "State": "in-use" if attached else "available",
        "Attachments": [{"InstanceId": each, "State": "attached", "Device": "/dev/sdg"} for each in attached],
        **keys,
    }
    return {"ec2 describe_volumes": {"Volumes": [found]}}


def instance(**tags: str) -> Answers:
    listed = [{"Key": f"gpucluster:{key}", "Value": value} for key, value in tags.items()]
    return {"ec2 describe_instances": {"Reservations": [{"Instances": [{"InstanceId": "i-1", "Tags": listed}]}]}}


def encrypted(manager: str, admits: str = "arn:aws:iam::123456789012:root") -> Answers:
    statement = {"Effect": "Allow", "Principal": {"AWS": admits}}
    return {
        **volume(KmsKeyId=KEY),
        "kms describe_key": {"KeyMetadata": {"KeyId": "1234abcd", "KeyManager": manager}},
        "kms get_key_policy": {"Policy": json.dumps({"Statement": [statement]})},
    }


def snapshot(**keys: Any) -> Answers:
    return {"ec2 describe_snapshots": {"Snapshots": [{"SnapshotId": SNAPSHOT, "State": "completed", **keys}]}}


IN_USE = f"{ID} is attached to i-1"
CASES: dict[str, Online | list[Online]] = {
    "volume-exists": Online(
        THERE, key="storage[0].volume_id", says=f"the account sees no {ID} in us-east-1",
        fails={"ec2 describe_volumes": "InvalidVolume.NotFound"}, passes=volume(),
    ),
    "volume-zone": Online(
        THERE, key="storage[0].volume_id", says=f"{ID} is in us-east-1b, the cluster in us-east-1a",
        fails=volume(AvailabilityZone="us-east-1b"), passes=volume(),
    ),
    "volume-free": [
        *(
            Online(
                THERE, key="storage[0].volume_id", says=IN_USE,
                fails={**volume("i-1"), **instance(**tags)},
                passes={**volume("i-1"), **instance(cluster="GpuCluster", role="head")},
            )
            for tags in ({}, {"cluster": "Another", "role": "head"}, {"cluster": "GpuCluster", "role": "compute"})
        ),
        Online(
            THERE, key="storage[0].volume_id", says=f"{ID} is in the state deleting",
            fails=volume(State="deleting"), passes=volume(),
        ),
    ],
    "volume-key": Online(
        THERE, key="storage[0].volume_id",
        says=f"{ID} is encrypted with {KEY}, which the head node's role may not use",
        fails=encrypted("CUSTOMER"), passes=encrypted("AWS"),
    ),
    "ebs-snapshot-exists": [
        Online(
            having(snapshot_id=SNAPSHOT), key="storage[0].snapshot_id",
            says=f"the account sees no {SNAPSHOT} in us-east-1",
            fails={"ec2 describe_snapshots": "InvalidSnapshot.NotFound"},
            passes={"ec2 describe_snapshots": "InvalidSnapshot.NotFound", **deployed("GpuCluster")},
        ),
        Online(
            having(snapshot_id=SNAPSHOT), key="storage[0].snapshot_id", says=f"{SNAPSHOT} is pending",
            fails=snapshot(State="pending"), passes=snapshot(),
        ),
    ],
    "ebs-snapshot-fits": Online(
        having(snapshot_id=SNAPSHOT, gib=100), key="storage[0].gib",
        says=f"{SNAPSHOT} is of a volume of 200 GiB, got 100",
        fails=snapshot(VolumeSize=200), passes=snapshot(VolumeSize=50),
    ),
}  # fmt: skip
