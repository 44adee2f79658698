from __future__ import annotations

from validator_cases.case import Case, Keys, cluster, storage

EFS: Keys = {"mount": "/data", "type": "efs"}

CASES: dict[str, Case | list[Case]] = {
    "mount-unique": Case(
        fails=cluster(storage=[EFS, {**EFS}]),
        key="storage[1].mount",
        says="/data is the mount of storage[0] already",
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
    "mounts-have-own-names": Case(
        fails=cluster(storage=[{**EFS, "mount": "/a/b"}, {**EFS, "mount": "/a-b"}]),
        key="storage[1].mount",
        says="/a-b is too like /a/b: both are called a-b",
        passes=cluster(storage=[{**EFS, "mount": "/a/b"}, {**EFS, "mount": "/a-c"}]),
    ),
    "home-not-in-memory": Case(
        fails={**storage("beegfs-ram", mount="/home", partition="train", gib_per_node=150, scope="job")},
        key="storage[0].mount",
        says="/home in memory would be lost with the nodes",
        passes=storage("beegfs-ram", partition="train", gib_per_node=150, scope="job"),
    ),
    "head-nfs-shares-home": Case(
        fails=storage("head-nfs"),
        key="storage[0].mount",
        says="head-nfs shares /home only, got /data",
        passes=storage("head-nfs", mount="/home"),
    ),
    "home-not-on-lustre": Case(
        fails=storage("fsx-lustre", mount="/home"),
        key="storage[0].mount",
        says="/home cannot be on FSx for Lustre",
        passes=storage("fsx-lustre"),
    ),
    "home-outlives-cluster": Case(
        fails=storage("efs", mount="/home", on_delete="delete"),
        key="storage[0].on_delete",
        says="everybody's home directory is deleted with the cluster",
        passes=storage("efs", mount="/home"),
    ),
}
