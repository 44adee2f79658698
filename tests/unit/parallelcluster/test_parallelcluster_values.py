"""What becomes of each key of a ParallelCluster file."""

from __future__ import annotations

from functools import reduce
from operator import getitem
from typing import Any

import pytest

from tests.unit.parallelcluster.files import converted, loaded, small

SG, CR = "sg-0123456789abcdef0", "cr-0123456789abcdef0"
LUSTRE = {"MountDir": "data", "Name": "a", "StorageType": "FsxLustre"}
HOME = {"MountDir": "/home", "Name": "a", "StorageType": "FsxLustre"}
EBS = {"MountDir": "/shared", "Name": "a", "StorageType": "Ebs"}
TWO = [{"Name": "a", "InstanceType": "g5.xlarge"}, {"Name": "b", "InstanceType": "p5.48xlarge"}]
PARTITION = ("partitions", 0)

ARN, SETTINGS = "arn:aws:iam::aws:policy/ReadOnlyAccess", "Scheduling__SlurmSettings"
SLOW = {"RootVolume": {"Size": 300, "Iops": 6000, "Throughput": 250}}
ACTIONS = {
    "OnNodeStart": {"Script": "s3://bucket/a.sh", "Args": ["x", "1.0"]},
    "OnNodeConfigured": {"Sequence": [{"Script": "https://example.com/b.sh"}]},
}
ZFS = {"StorageType": "FsxOpenZfs", "FsxOpenZfsSettings": {"VolumeId": "fsvol-0123456789abcdef0"}}
POINT = {"FileSystemId": "fs-0123456789abcdef0", "AccessPointId": "fsap-0123456789abcdef0"}
VALUES: list[tuple[str, dict[str, Any], tuple[str | int, ...], Any]] = [
    ("defaults of the counts", {"resource__MaxCount": None}, (*PARTITION, "max_nodes"), 10),
    (
        "several types",
        {"resource__Instances": [{"InstanceType": "g5.2xlarge"}]},
        (*PARTITION, "instance_types"),
        ["g5.xlarge", "g5.2xlarge"],
    ),
    ("an Arm head", {"HeadNode__InstanceType": "c6g.xlarge"}, ("head_node", "instance_type"), "c6i.xlarge"),
    ("EFA not mentioned", {"resource__InstanceType": "p5.48xlarge"}, (*PARTITION, "efa"), "auto"),
    ("EFA switched off", {"resource__Efa": {"Enabled": "FALSE"}}, (*PARTITION, "efa"), "off"),
    ("no placement group", {}, (*PARTITION, "placement_group"), "none"),
    (
        "a placement group",
        {"queue__Networking": {"PlacementGroup": {"Enabled": True}}},
        (*PARTITION, "placement_group"),
        "cluster",
    ),
    (
        "a placement group by id",
        {"queue__Networking": {"PlacementGroup": {"Id": "mine"}}},
        (*PARTITION, "placement_group"),
        "mine",
    ),
    (
        "a resource's own group",
        {
            "queue__Networking": {"PlacementGroup": {"Enabled": True}},
            "resource__Networking": {"PlacementGroup": {"Enabled": False}},
        },
        (*PARTITION, "placement_group"),
        "none",
    ),
    (
        "a reservation",
        {"queue__CapacityReservationTarget": {"CapacityReservationId": CR}},
        (*PARTITION, "purchase"),
        "reservation",
    ),
    (
        "a group and a reservation",
        {
            "resource__CapacityReservationTarget": {"CapacityReservationId": CR},
            "queue__Networking": {"PlacementGroup": {"Enabled": True}},
        },
        (*PARTITION, "placement_group"),
        "none",
    ),
    (
        "a group for burstable nodes",
        {"resource__InstanceType": "t3.large", "queue__Networking": {"PlacementGroup": {"Enabled": True}}},
        (*PARTITION, "placement_group"),
        "none",
    ),
    ("spot", {"queue__CapacityType": "SPOT"}, (*PARTITION, "purchase"), "spot"),
    ("two resources", {"queue__ComputeResources": TWO}, ("partitions", 1, "name"), "train-b"),
    ("the subnet", {}, ("network", "subnet_id"), "subnet-01234567"),
    ("the subnet's zone", {}, ("availability_zone",), "us-east-1b"),
    (
        "Lustre's deployment",
        {"SharedStorage": [{**LUSTRE, "FsxLustreSettings": {"StorageCapacity": 1200}}]},
        ("storage", 0, "deployment"),
        "scratch-2",
    ),
    (
        "a relative mount",
        {"SharedStorage": [{**LUSTRE, "FsxLustreSettings": {"StorageCapacity": 1200}}]},
        ("storage", 0, "mount"),
        "/data",
    ),
    (
        "an odd capacity",
        {"SharedStorage": [{**LUSTRE, "FsxLustreSettings": {"StorageCapacity": 10240}}]},
        ("storage", 0, "capacity_gib"),
        12000,
    ),
    (
        "an import path",
        {
            "SharedStorage": [
                {
                    **LUSTRE,
                    "FsxLustreSettings": {
                        "StorageCapacity": 1200,
                        "ImportPath": "s3://bucket/a/",
                        "AutoImportPolicy": "NEW_CHANGED",
                    },
                }
            ]
        },
        ("storage", 0, "data_repositories"),
        [{"path": "/", "s3": "s3://bucket/a", "import": ["new", "changed"]}],
    ),
    (
        "associations",
        {
            "SharedStorage": [
                {
                    **LUSTRE,
                    "FsxLustreSettings": {
                        "StorageCapacity": 1200,
                        "DeploymentType": "PERSISTENT_2",
                        "DataRepositoryAssociations": [
                            {
                                "Name": "n",
                                "DataRepositoryPath": "s3://bucket/a",
                                "FileSystemPath": "/a",
                                "AutoExportPolicy": ["NEW"],
                            }
                        ],
                    },
                }
            ]
        },
        ("storage", 0, "data_repositories"),
        [{"path": "/a", "s3": "s3://bucket/a", "export": ["new"]}],
    ),
    (
        "/home on new Lustre",
        {"SharedStorage": [{**HOME, "FsxLustreSettings": {"StorageCapacity": 1200}}]},
        ("storage", 0, "type"),
        "efs",
    ),
    (
        "internal storage on EFS",
        {"HeadNode__SharedStorageType": "Efs"},
        ("storage", 0),
        {"mount": "/home", "type": "efs", "on_delete": "retain"},
    ),
    (
        "the root disk holds /home",
        {"HeadNode__LocalStorage": {"RootVolume": {"Size": 500}}},
        ("head_node", "volume_gib"),
        500,
    ),
    (
        "a bucket's part",
        {"queue__Iam": {"S3Access": [{"BucketName": "bucket", "KeyName": "a/b/*", "EnableWriteAccess": True}]}},
        ("s3_access", 0),
        {"uri": "s3://bucket/a/b", "access": "read-write"},
    ),
    ("idle nodes", {"Scheduling__SlurmSettings": {"ScaledownIdletime": 5}}, (*PARTITION, "idle_minutes"), 5),
    (
        "one thread",
        {"resource__DisableSimultaneousMultithreading": True, "resource__InstanceType": "c5.xlarge"},
        (*PARTITION, "threads_per_core"),
        1,
    ),
    (
        "threads of Slurm",
        {"resource__CustomSlurmSettings": {"ThreadsPerCore": 1}, "resource__InstanceType": "c5.xlarge"},
        (*PARTITION, "threads_per_core"),
        1,
    ),
    (
        "a root disk",
        {"queue__ComputeSettings": {"LocalStorage": SLOW}},
        (*PARTITION, "root_volume"),
        {"gib": 300, "iops": 6000, "throughput_mibps": 250},
    ),
    (
        "scripts",
        {"queue__CustomActions": ACTIONS},
        (*PARTITION, "scripts"),
        [
            {"when": "before", "source": "s3://bucket/a.sh", "args": ["x", "1.0"]},
            {"source": "https://example.com/b.sh"},
        ],
    ),
    (
        "a time limit",
        {
            "queue__CustomActions": {"OnNodeConfigured": {"Script": "s3://bucket/a.sh"}},
            "DevSettings": {"Timeouts": {"ComputeNodeBootstrapTimeout": 5400}},
        },
        (*PARTITION, "scripts", 0, "time_limit_minutes"),
        90,
    ),
    ("security groups", {"queue__Networking": {"SecurityGroups": [SG]}}, (*PARTITION, "security_groups"), [SG]),
    (
        "exclusive jobs",
        {"queue__JobExclusiveAllocation": True},
        (*PARTITION, "partition_options"),
        {"OverSubscribe": "EXCLUSIVE"},
    ),
    ("options of nodes", {"resource__CustomSlurmSettings": {"Weight": 5}}, (*PARTITION, "node_options"), {"Weight": 5}),
    ("memory", {SETTINGS: {"EnableMemoryBasedScheduling": True}}, ("slurm", "memory"), "allocated"),
    (
        "lines of slurm.conf",
        {SETTINGS: {"CustomSlurmSettings": [{"KillWait": 300}, {"JobAcctGatherType": "a"}]}},
        ("slurm", "slurm_conf"),
        "KillWait=300\n",
    ),
    (
        "policies of the head",
        {"HeadNode__Iam": {"AdditionalIamPolicies": [{"Policy": ARN}]}},
        ("security", "policies"),
        {"head": [ARN]},
    ),
    (
        "policies of a queue",
        {"queue__Iam": {"AdditionalIamPolicies": [{"Policy": ARN}]}},
        ("security", "policies"),
        {"nodes": [ARN], "jobs": [ARN]},
    ),
    (
        "agents' policies",
        {"queue__Iam": {"AdditionalIamPolicies": [{"Policy": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}]}},
        ("security", "policies"),
        {"nodes": ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"]},
    ),
    ("a role's prefix", {"Iam": {"ResourcePrefix": "/teams/a-"}}, ("security", "role_prefix"), "/teams/a-"),
    ("tags", {"Tags": [{"Key": "org:a", "Value": "true"}]}, ("tags",), {"org:a": "true"}),
    (
        "EBS of the default size",
        {"SharedStorage": [EBS]},
        ("storage", 0),
        {"mount": "/shared", "type": "ebs", "gib": 40, "on_delete": "delete"},
    ),
    (
        "EBS of a RAID",
        {
            "SharedStorage": [
                {
                    **EBS,
                    "EbsSettings": {
                        "Size": 100,
                        "Raid": {"Type": 0, "NumberOfVolumes": 3},
                        "DeletionPolicy": "Snapshot",
                    },
                }
            ]
        },
        ("storage", 0),
        {"mount": "/shared", "type": "ebs", "gib": 300, "on_delete": "snapshot"},
    ),
    (
        "EBS that exists",
        {"SharedStorage": [{**EBS, "EbsSettings": {"VolumeId": "vol-0123456789abcdef0"}}]},
        ("storage", 0),
        {"mount": "/shared", "type": "ebs", "volume_id": "vol-0123456789abcdef0"},
    ),
    (
        "OpenZFS at /home",
        {"SharedStorage": [{"MountDir": "/home", "Name": "a", **ZFS}]},
        ("storage", 0),
        {"mount": "/home", "type": "fsx-openzfs", "volume_id": "fsvol-0123456789abcdef0"},
    ),
    (
        "the head's volume without /home",
        {"SharedStorage": [{"MountDir": "/home", "Name": "a", **ZFS}]},
        ("head_node", "volume_gib"),
        50,
    ),
    (
        "a proxy",
        {"HeadNode__Networking": {"Proxy": {"HttpProxyAddress": "http://proxy.example.com:3128"}}},
        ("network", "proxy"),
        "http://proxy.example.com:3128",
    ),
    (
        "EFS through an access point",
        {"SharedStorage": [{"MountDir": "/efs", "Name": "a", "StorageType": "Efs", "EfsSettings": POINT}]},
        ("storage", 0, "access_point_id"),
        "fsap-0123456789abcdef0",
    ),
    ("days of logs", {"Monitoring": {"Logs": {"CloudWatch": {"RetentionInDays": 7}}}}, ("monitoring", "log_days"), 7),
    (
        "a boundary",
        {"Iam": {"PermissionsBoundary": "arn:aws:iam::123456789012:policy/a"}},
        ("security", "permissions_boundary_arn"),
        "arn:aws:iam::123456789012:policy/a",
    ),
]


@pytest.mark.parametrize(("asked", "path", "value"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_a_key_becomes_ours(asked: dict[str, Any], path: tuple[str | int, ...], value: Any) -> None:
    made = converted(small(**asked))
    assert made.complete, made.look
    assert reduce(getitem, path, loaded(made.text)) == value, made.text
