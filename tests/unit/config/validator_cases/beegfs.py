from __future__ import annotations

from validator_cases.case import PARTITION, Case, Keys, cluster

JOB: Keys = {"mount": "/ram", "type": "beegfs-ram", "partition": "train", "gib_per_node": 150, "scope": "job"}
FSX: Keys = {"mount": "/fsx", "type": "fsx-lustre"}


def ram(min_nodes: int = 2, purchase: str = "on-demand", parameter_servers: Keys | None = None, **keys: object) -> Keys:
    """A valid cluster except for these keys: BeeGFS in the memory of the always-on nodes of `train`."""
    entry = {"mount": "/ram", "type": "beegfs-ram", "partition": "train", "gib_per_node": 150, **keys}
    partition = {**PARTITION, "min_nodes": min_nodes, "purchase": purchase}
    return cluster(storage=[entry], partitions=[partition], parameter_servers=parameter_servers)


CASES: dict[str, Case | list[Case]] = {
    "beegfs-partition-exists": Case(
        fails=ram(partition="tarin"),
        key="storage[0].partition",
        says="there is no partition 'tarin'",
        passes=ram(partition="ps", parameter_servers={"min_nodes": 2}),
    ),
    "beegfs-fits-memory": Case(
        fails=ram(gib_per_node=1130),
        key="storage[0].gib_per_node",
        says="must be less than the 1152 GiB of p4d.24xlarge, got 1130 and 35 for metadata",
        passes=ram(gib_per_node=900),
    ),
    "beegfs-cluster-needs-static-nodes": Case(
        fails=ram(min_nodes=0),
        key="storage[0].scope",
        says="'cluster' needs nodes that are always on, but train has min_nodes: 0",
        passes=ram(min_nodes=0, scope="job"),
    ),
    "beegfs-export-of-job": Case(
        fails=cluster(storage=[{**JOB, "scope": "cluster", "export": "/fsx/out"}, FSX]),
        key="storage[0].export",
        says="a file system of the cluster has no end at which to export it",
        passes=cluster(storage=[{**JOB, "export": "/fsx/out"}, FSX]),
    ),
    "beegfs-folder-is-there": [
        Case(
            fails=cluster(storage=[{**JOB, "source": "/fsx2/data"}, {"mount": "/fsx", "type": "fsx-lustre"}]),
            key="storage[0].source",
            says="/fsx2/data is not on a file system of the cluster",
            passes=cluster(storage=[{**JOB, "source": "/fsx/data"}, {"mount": "/fsx", "type": "fsx-lustre"}]),
        ),
        Case(
            fails=cluster(storage=[{**JOB, "source": "/fsx/../data"}, {"mount": "/fsx", "type": "fsx-lustre"}]),
            key="storage[0].source",
            says="/fsx/../data is not on a file system of the cluster",
            passes=cluster(storage=[{**JOB, "source": "/fsx"}, {"mount": "/fsx", "type": "fsx-lustre"}]),
        ),
        Case(
            fails=cluster(storage=[{**JOB, "export": "/fsx2/out"}, FSX]),
            key="storage[0].export",
            says="/fsx2/out is not on a file system of the cluster",
            passes=cluster(storage=[{**JOB, "export": "/fsx/out"}, FSX]),
        ),
    ],
    "beegfs-jobs-may-copy": [
        Case(
            fails=cluster(
                storage=[{**JOB, "source": "s3://my-bucket/in"}], s3_access=[{"uri": "s3://my-bucket/inner"}]
            ),
            key="storage[0].source",
            says="jobs may not read s3://my-bucket/in",
            passes=cluster(storage=[{**JOB, "source": "s3://my-bucket/in"}], s3_access=[{"uri": "s3://my-bucket/in"}]),
        ),
        Case(
            fails=cluster(storage=[{**JOB, "export": "s3://my-bucket/out"}], s3_access=[{"uri": "s3://my-bucket/out"}]),
            key="storage[0].export",
            says="jobs may not write to s3://my-bucket/out",
            passes=cluster(
                storage=[{**JOB, "export": "s3://my-bucket/out"}],
                s3_access=[{"uri": "s3://my-bucket/out", "access": "read-write"}],
            ),
        ),
    ],
    "beegfs-only-one": Case(
        fails=cluster(storage=[JOB, {**JOB, "mount": "/ram2"}]),
        key="storage[1].type",
        says="storage[0] is already beegfs-ram, and a cluster can have only one",
        passes=cluster(storage=[JOB]),
    ),
    "beegfs-not-on-spot": Case(
        fails=ram(purchase="spot"),
        key="storage[0].partition",
        says="AWS may interrupt spot nodes of train: the files in their memory are then lost",
        passes=ram(purchase="on-demand"),
    ),
    "beegfs-client-kernel": Case(
        fails=ram(),
        key="storage[0].type",
        says="BeeGFS's client may not compile for the Deep Learning AMI's kernel (6.17, later 7.0)",
        passes={**ram(), "software": {"image": "ami-0123456789abcdef0"}},
    ),
}
