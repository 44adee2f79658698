from __future__ import annotations

import json
from typing import Any

from validator_cases.case import Keys, cluster

from online_cases.case import Answers, Online, deployed
from online_cases.network import NETWORK, subnet

ID = "fs-0123456789abcdef0"


def mounting(type_: str, mount: str = "/data", **network: str) -> Keys:
    entry = {"mount": mount, "type": type_, "file_system_id": ID}
    return cluster(availability_zone="us-east-1a", network={**NETWORK, **network}, storage=[entry])


LUSTRE, EFS = mounting("fsx-lustre"), mounting("efs")
IN_CIDR = {"IpProtocol": "tcp", "FromPort": 900, "ToPort": 2049, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]}
"""Admits all nodes: the subnet of the cases is 10.0.16.0/20."""


def rule(**source: Any) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, **source}


def grouped(*rules: dict[str, Any], **more: Any) -> Answers:
    group = {"GroupId": "sg-1", "IpPermissions": list(rules)}
    return {
        **subnet(),
        "ec2 describe_network_interfaces": {"NetworkInterfaces": [{"Groups": [{"GroupId": "sg-1"}]}]},
        "ec2 describe_security_groups": {"SecurityGroups": [group]},
        **more,
    }


def fsx(*rules: dict[str, Any], **keys: Any) -> Answers:
    """DescribeFileSystems, with the members that it has for a file system that is available."""
    found = {
        "FileSystemId": ID,
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "Lifecycle": "AVAILABLE",
        "VpcId": "vpc-11111111",
        "SubnetIds": ["subnet-22222222"],
        "NetworkInterfaceIds": ["eni-11111111", "eni-22222222"],
        **keys,
    }
    return {**grouped(*(rules or (IN_CIDR,))), "fsx describe_file_systems": {"FileSystems": [found]}}


VOLUME = "fsvol-0123456789abcdef0"


def on_fsx(type_: str, mount: str = "/data") -> Keys:
    entry = {"mount": mount, "type": type_, "volume_id": VOLUME}
    return cluster(availability_zone="us-east-1a", network=NETWORK, storage=[entry])


ZFS, ONTAP = on_fsx("fsx-openzfs"), on_fsx("fsx-ontap")


def volume(kind: str, *options: str, system: Answers | None = None, **keys: Any) -> Answers:
    """DescribeVolumes. `options`: of the export of an OpenZFS volume."""
    exports = [{"ClientConfigurations": [{"Clients": "*", "Options": list(options)}]}] if options else []
    found = {
        "VolumeId": VOLUME,
        "VolumeType": kind,
        "FileSystemId": ID,
        "Lifecycle": "AVAILABLE" if kind == "OPENZFS" else "CREATED",
        "OpenZFSConfiguration": {"VolumePath": "/fsx/vol1", "NfsExports": exports},
        "OntapConfiguration": {"JunctionPath": "/vol1"},
        **keys,
    }
    return {**(system or fsx(FileSystemType=kind)), "fsx describe_volumes": {"Volumes": [found]}}


def efs(*rules: dict[str, Any], state: str = "available", **target: Any) -> Answers:
    system = {
        "OwnerId": "123456789012",
        "CreationToken": "x",
        "FileSystemId": ID,
        "CreationTime": "2026-11-21",
        "LifeCycleState": state,
        "NumberOfMountTargets": 1,
        "SizeInBytes": {"Value": 1},
        "PerformanceMode": "generalPurpose",
        "Tags": [],
    }
    found = {
        "MountTargetId": "fsmt-11111111",
        "FileSystemId": ID,
        "SubnetId": "subnet-11111111",
        "LifeCycleState": "available",
        "NetworkInterfaceId": "eni-11111111",
        "VpcId": "vpc-11111111",
        **target,
    }
    return {
        **grouped(*(rules or (IN_CIDR,))),
        "efs describe_file_systems": {"FileSystems": [system]},
        "efs describe_mount_targets": {"MountTargets": [found] if target.get("VpcId") != "" else []},
        "efs describe_file_system_policy": "PolicyNotFound",
    }


def policy(*statements: dict[str, Any]) -> Answers:
    return {**efs(), "efs describe_file_system_policy": {"FileSystemId": ID, "Policy": json.dumps({
        "Version": "2012-10-17", "Statement": list(statements)})}}  # fmt: skip


BY_MOUNT_TARGET = {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}}
ANYBODY = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Condition": BY_MOUNT_TARGET}
MOUNT = [f"elasticfilesystem:Client{name}" for name in ("Mount", "Write")]
ROLE = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:role/a"}, "Action": "*"}


def ours(*rules: dict[str, Any]) -> Answers:
    """The groups of a cluster that is deployed. The first is also the file system's, with these rules."""
    head = {"GroupId": "sg-1", "Description": "GpuCluster head node", "IpPermissions": list(rules)}
    nodes = {"GroupId": "sg-2", "Description": "GpuCluster compute nodes", "IpPermissions": []}
    return {**fsx(), **deployed("GpuCluster"), "ec2 describe_security_groups": {"SecurityGroups": [head, nodes]}}


def of_groups(*ids: str) -> dict[str, Any]:
    return rule(UserIdGroupPairs=[{"GroupId": each} for each in ids])


def of_networks(*cidrs: str) -> dict[str, Any]:
    return rule(IpRanges=[{"CidrIp": each} for each in cidrs])


POINT = "fsap-0123456789abcdef0"
THROUGH = cluster(
    availability_zone="us-east-1a",
    network=NETWORK,
    storage=[{"mount": "/data", "type": "efs", "file_system_id": ID, "access_point_id": POINT}],
)
BY_POINT = {**ANYBODY, "Action": MOUNT, "Condition": {"StringEquals": {"elasticfilesystem:AccessPointArn": "arn:…"}}}


def point(**keys: str) -> Answers:
    found = {"AccessPointId": POINT, "FileSystemId": ID, "LifeCycleState": "available", **keys}
    return {"efs describe_access_points": {"AccessPoints": [found]}}


CASES: dict[str, Online | list[Online]] = {
    "fsx-volume-of-type": [
        *(
            Online(
                cluster=keys,
                key="storage[0].volume_id",
                says=f"{VOLUME} is a volume of {other}",
                fails=volume(other),
                passes=volume(kind),
            )
            for keys, kind, other in ((ZFS, "OPENZFS", "ONTAP"), (ONTAP, "ONTAP", "OPENZFS"))
        ),
        Online(
            cluster=ONTAP,
            key="storage[0].volume_id",
            says=f"{VOLUME} has no junction path: nobody can mount it",
            fails=volume("ONTAP", OntapConfiguration={}),
            passes=volume("ONTAP"),
        ),
    ],
    "openzfs-home-export": Online(
        cluster=on_fsx("fsx-openzfs", "/home"),
        key="storage[0].volume_id",
        says=f"{VOLUME} is exported without rw and no_root_squash, which /home needs",
        fails=volume("OPENZFS", "rw", "crossmnt"),
        passes=volume("OPENZFS", "rw", "crossmnt", "no_root_squash"),
    ),
    "file-system-exists": [
        Online(
            cluster=ZFS,
            key="storage[0].volume_id",
            says=f"the account sees no {VOLUME} in us-east-1",
            fails={"fsx describe_volumes": "VolumeNotFound"},
            passes=volume("OPENZFS"),
        ),
        *(
            Online(
                cluster=keys,
                key="storage[0].file_system_id",
                says=f"the account sees no {ID} in us-east-1",
                fails={f"{service} describe_file_systems": "FileSystemNotFound"},
                passes=there,
            )
            for keys, service, there in ((LUSTRE, "fsx", fsx()), (EFS, "efs", efs()))
        ),
    ],
    "file-system-usable": [
        Online(
            cluster=ONTAP,
            key="storage[0].volume_id",
            says=f"{VOLUME} is failed, and cannot be mounted",
            fails=volume("ONTAP", Lifecycle="FAILED"),
            passes=volume("ONTAP"),
        ),
        Online(
            cluster=LUSTRE,
            key="storage[0].file_system_id",
            says=f"{ID} is misconfigured unavailable, and cannot be mounted",
            fails=fsx(Lifecycle="MISCONFIGURED_UNAVAILABLE"),
            passes=fsx(Lifecycle="UPDATING"),
        ),
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"{ID} is deleting, and cannot be mounted",
            fails=efs(state="deleting"),
            passes=efs(state="updating"),
        ),
    ],
    "file-system-is-lustre": Online(
        cluster=LUSTRE,
        key="storage[0].file_system_id",
        says=f"{ID} is of the type OPENZFS",
        fails=fsx(FileSystemType="OPENZFS"),
        passes=fsx(),
    ),
    "file-system-version": Online(
        cluster=LUSTRE,
        key="storage[0].file_system_id",
        says=f"{ID} has Lustre 2.10, which the client of Ubuntu 24.04 does not mount",
        fails=fsx(FileSystemTypeVersion="2.10"),
        passes=fsx(FileSystemTypeVersion="2.12"),
    ),
    "file-system-in-vpc": Online(
        cluster=LUSTRE,
        key="storage[0].file_system_id",
        says=f"{ID} is in vpc-22222222, the nodes in vpc-11111111",
        fails=fsx(VpcId="vpc-22222222"),
        passes=fsx(),
    ),
    "efs-has-mount-target": [
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"{ID} has its mount targets in vpc-22222222, the nodes are in vpc-11111111",
            fails=efs(VpcId="vpc-22222222"),
            passes=efs(),
        ),
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"{ID} has its mount targets in no VPC, the nodes are in vpc-11111111",
            fails=efs(VpcId=""),
            passes=efs(),
        ),
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"{ID} has no mount target in us-east-1a, where the nodes are",
            fails={**efs(), **subnet(AvailabilityZone="us-east-1b")},
            passes=efs(),
        ),
    ],
    "file-system-zone": Online(
        cluster=LUSTRE,
        key="storage[0].file_system_id",
        says=f"{ID} is in us-east-1b, the nodes are in us-east-1a: AWS bills what they read and write",
        fails={**fsx(), **subnet(AvailabilityZone="us-east-1b")},
        passes=fsx(),
    ),
    "file-system-admits-nodes": [
        *(
            Online(
                cluster=LUSTRE,
                key="storage[0].file_system_id",
                says=f"the security group sg-1 of {ID} does not admit TCP 988 from head_node",
                fails=fsx(refused),
                passes=fsx(admitted),
            )
            for refused, admitted in (
                (of_networks("10.0.16.0/24"), of_networks("192.0.2.0/24", "10.0.16.0/20")),
                ({**of_networks("10.0.0.0/16"), "IpProtocol": "udp"}, rule(PrefixListIds=[{"PrefixListId": "pl-1"}])),
                ({**IN_CIDR, "FromPort": 989}, {**of_networks("0.0.0.0/0"), "IpProtocol": "-1"}),
                (of_groups("sg-9"), IN_CIDR),
            )
        ),
        Online(
            cluster=ZFS,
            key="storage[0].volume_id",
            says=f"the security group sg-1 of {VOLUME} does not admit TCP 2049 from head_node",
            fails=volume("OPENZFS", system=fsx(of_networks("0.0.0.0/0"), FileSystemType="OPENZFS")),
            passes=volume("OPENZFS"),
        ),
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"the security group sg-1 of {ID} does not admit TCP 2049 from head_node",
            fails=efs(of_networks("0.0.0.0/0")),
            passes=efs(),
        ),
        Online(
            cluster=LUSTRE,
            key="storage[0].file_system_id",
            says=f"the security group sg-1 of {ID} does not admit TCP 988 from partitions[train]",
            fails=ours(of_groups("sg-1")),
            passes=ours(of_groups("sg-1", "sg-2")),
        ),
    ],
    "efs-access-point": [
        Online(
            cluster=THROUGH,
            key="storage[0].access_point_id",
            says=f"the account sees no {POINT} in us-east-1",
            fails={"efs describe_access_points": "AccessPointNotFound"},
            passes=point(),
        ),
        Online(
            cluster=THROUGH,
            key="storage[0].access_point_id",
            says=f"{POINT} is of fs-1",
            fails=point(FileSystemId="fs-1"),
            passes=point(),
        ),
        Online(
            cluster=THROUGH,
            key="storage[0].access_point_id",
            says=f"{POINT} is deleting",
            fails=point(LifeCycleState="deleting"),
            passes=point(),
        ),
    ],
    "efs-policy-admits-nodes": [
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"the policy of {ID} does not allow elasticfilesystem:ClientMount to a client without IAM",
            fails=policy(BY_POINT),
            passes=efs(),
        ),
        Online(
            cluster=THROUGH,
            key="storage[0].file_system_id",
            says=f"the policy of {ID} does not allow elasticfilesystem:ClientMount to a client without IAM",
            fails=policy(ROLE),
            passes=policy(BY_POINT),
        ),
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"the policy of {ID} does not allow elasticfilesystem:ClientMount to a client without IAM",
            fails=policy(ROLE),
            passes=policy(ROLE, {**ANYBODY, "Action": MOUNT}),
        ),
        Online(
            cluster=EFS,
            key="storage[0].file_system_id",
            says=f"the policy of {ID} does not allow elasticfilesystem:ClientMount to a client without IAM",
            fails=policy({**ANYBODY, "Action": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}),
            passes=policy({**ANYBODY, "Principal": "*", "Action": "elasticfilesystem:*"}),
        ),
        Online(
            cluster=mounting("efs", "/home"),
            key="storage[0].file_system_id",
            says=f"the policy of {ID} does not allow elasticfilesystem:ClientRootAccess to a client without IAM",
            fails=policy({**ANYBODY, "Action": MOUNT}),
            passes=efs(),
        ),
    ],
}  # fmt: skip
