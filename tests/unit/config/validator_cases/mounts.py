from __future__ import annotations

from validator_cases.case import Case, Keys, cluster, storage

EFS: Keys = {"mount": "/data", "type": "efs"}
ACCESS: Keys = {"s3_access": [{"uri": "s3://bucket/a"}]}


SYSTEM = "fs-0123456789abcdef0"
LINK: Keys = {"path": "/a", "s3": "s3://bucket/a"}


def existing(*types: str, **keys: str | None) -> Keys:
    """Entries of file systems that exist, at /data0, /data1 …, in a VPC that exists."""
    network = {"vpc_id": "vpc-11111111", "subnet_id": "subnet-11111111"}
    named = {"file_system_id": SYSTEM, **keys}
    found = [{"mount": f"/data{index}", "type": type_, **named} for index, type_ in enumerate(types)]
    return cluster(availability_zone="us-east-1a", network=network, storage=found)


def efs(*mounts: str) -> Keys:
    return cluster(storage=[{**EFS, "mount": mount} for mount in mounts])


CASES: dict[str, Case | list[Case]] = {
    "mount-unique": Case(
        fails=cluster(storage=[EFS, {**EFS}]),
        key="storage[1].mount",
        says="/data is already the mount of storage[0]",
        passes=cluster(storage=[EFS, {**EFS, "mount": "/data2"}]),
    ),
    "mounts-apart": [
        Case(
            fails=cluster(storage=[EFS, {**EFS, "mount": "/data/a"}]),
            key="storage[1].mount",
            says="/data/a is inside /data, another file system",
            passes=cluster(storage=[EFS, {**EFS, "mount": "/data-a"}]),
        ),
        Case(
            fails=cluster(storage=[{**EFS, "mount": "/home/ubuntu"}]),
            key="storage[0].mount",
            says="/home/ubuntu is inside /home, another file system",
            passes=cluster(storage=[{**EFS, "mount": "/homes"}]),
        ),
    ],
    "mounts-have-own-names": [
        *(
            Case(
                fails=efs(first, second),
                key="storage[1].mount",
                says=f"{second} is too similar to {first}: both would get the name {both}",
                passes=efs(first, second + "-more"),
            )
            for first, second, both in (
                ("/a/b", "/a-b", "ab"),
                ("/a.b", "/a-b", "ab"),
                ("/scratch1", "/scratch-1", "scratch1"),
                ("/fsx", "/Fsx", "fsx"),
                ("/fsx", "/fsX", "fsx"),
            )
        ),
        Case(
            fails={**efs("/jobs"), **ACCESS},
            key="storage[0].mount",
            says="/jobs would have the same name as the role of jobs, which s3_access creates",
            passes=efs("/jobs"),
        ),
        Case(
            fails={**efs("/jobs"), "software": {"cache": "s3://bucket/envs"}},
            key="storage[0].mount",
            says="/jobs would have the same name as the role of jobs, which software.cache creates",
            passes={**efs("/jobs"), "software": {"cache": "s3://bucket/envs"}, "users": [{"name": "ada"}]},
        ),
        Case(
            fails=storage("fsx-lustre", mount="/root-disk"),
            key="storage[0].mount",
            says="/root-disk would have the same name as the head node's disk, which has an alarm",
            passes=storage("efs", mount="/root-disk"),
        ),
        Case(
            fails=efs("/resource", "/default"),
            key="storage[0].mount",
            says="/resource would have the same name as /default: CDK accepts only one of these two names",
            passes=efs("/resource"),
        ),
        Case(
            fails=efs("/data/a", "/data-a", "/data.a"),
            key="storage[1].mount",
            says="/data-a is too similar to /data/a: both would get the name dataa",
            passes=cluster(storage=[{"mount": "/home", "type": "head-nfs"}, {**EFS, "mount": "/Home"}]),
            times=2,
        ),
    ],
    "home-not-in-memory": Case(
        fails={**storage("beegfs-ram", mount="/home", partition="train", gib_per_node=150, scope="job")},
        key="storage[0].mount",
        says="/home in the nodes' memory would be lost with the nodes",
        passes=storage("beegfs-ram", partition="train", gib_per_node=150, scope="job"),
    ),
    "head-nfs-shares-home": Case(
        fails=storage("head-nfs"),
        key="storage[0].mount",
        says="head-nfs shares /home only, got /data",
        passes=storage("head-nfs", mount="/home"),
    ),
    "home-not-with-jobs": Case(
        fails=storage("fsx-lustre", mount="/home", lifetime="jobs", on_delete="delete", data_repositories=[LINK]),
        key="storage[0].lifetime",
        says="/home is needed without jobs too, got jobs",
        passes=storage("fsx-lustre", mount="/home", on_delete="retain"),
    ),
    "existing-in-own-vpc": Case(
        fails=storage("efs", file_system_id=SYSTEM),
        key="storage[0].file_system_id",
        says=f"nodes of a new VPC do not reach {SYSTEM}",
        passes=existing("efs"),
    ),
    "existing-mounted-once": Case(
        fails=existing("efs", "efs"),
        key="storage[1].file_system_id",
        says=f"{SYSTEM} is mounted at /data0 already",
        passes=existing("efs"),
    ),
    "fsx-volume-id-form": Case(
        fails=existing("fsx-openzfs", file_system_id=None, volume_id="vol-0123456789abcdef0"),
        key="storage[0].volume_id",
        says="must be the id of a volume on FSx for OpenZFS or ONTAP (fsvol-…), got 'vol-0123456789abcdef0'",
        passes=existing("fsx-ontap", file_system_id=None, volume_id="fsvol-0123456789abcdef0"),
    ),
    "access-point-id-form": Case(
        fails=existing("efs", access_point_id="ap-1"),
        key="storage[0].access_point_id",
        says="must be the id of an access point of EFS (fsap-…), got 'ap-1'",
        passes=existing("efs", access_point_id="fsap-0123456789abcdef0"),
    ),
    "home-not-through-access-point": Case(
        fails=existing("efs", access_point_id="fsap-0123456789abcdef0", mount="/home"),
        key="storage[0].access_point_id",
        says="each user needs files of their own in /home, and an access point may give all files one owner",
        passes=existing("efs", mount="/home"),
    ),
    "file-system-id-form": Case(
        fails=existing("fsx-lustre", file_system_id="fs-1234"),
        key="storage[0].file_system_id",
        says="must be the id of a file system on FSx or EFS (fs-…), got 'fs-1234'",
        passes=existing("fsx-lustre"),
    ),
    "home-outlives-cluster": [
        Case(
            fails=storage(type_, mount="/home", on_delete="delete"),
            key="storage[0].on_delete",
            says="all home directories are deleted with the cluster",
            passes=storage(type_, mount="/home", on_delete="retain"),
        )
        for type_ in ("efs", "fsx-lustre")
    ],
}
