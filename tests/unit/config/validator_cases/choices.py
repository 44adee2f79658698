from __future__ import annotations

from validator_cases.case import Case, Keys, cluster, partition, storage

LINK: Keys = {"path": "/a", "s3": "s3://bucket/a"}

SAGEMAKER: Keys = {
    "role_arn": "arn:aws:iam::123456789012:role/training",
    "bucket": "bucket-of-mine",
    "instance_type": "ml.g5.xlarge",
}

CASES: dict[str, Case | list[Case]] = {
    "sagemaker-volume": Case(
        fails=cluster(sagemaker={**SAGEMAKER, "volume_gb": 0}),
        key="sagemaker.volume_gb",
        says="must be at least 1, got 0",
        passes=cluster(sagemaker={**SAGEMAKER, "volume_gb": 1}),
    ),
    "storage-type": Case(
        fails=storage("fsx-luster"),
        key="storage[0].type",
        says="must be fsx-lustre, beegfs-ram, head-nfs, efs, ebs, fsx-openzfs or fsx-ontap, got 'fsx-luster'",
        passes=storage("fsx-lustre"),
    ),
    "fsx-compression": Case(
        fails=storage("fsx-lustre", compression="zstd"),
        key="storage[0].compression",
        says="must be none or lz4, got 'zstd'",
        passes=storage("fsx-lustre", compression="lz4"),
    ),
    "fsx-lifetime": Case(
        fails=storage("fsx-lustre", lifetime="job"),
        key="storage[0].lifetime",
        says="must be cluster or jobs, got 'job'",
        passes=storage("fsx-lustre", lifetime="cluster"),
    ),
    "fsx-idle-above-zero": Case(
        fails=storage("fsx-lustre", idle_minutes=0.0),
        key="storage[0].idle_minutes",
        says="must be greater than 0, got 0.0",
        passes=storage("fsx-lustre", lifetime="jobs", idle_minutes=5.0, data_repositories=[LINK]),
    ),
    "fsx-link-events": Case(
        fails=storage("fsx-lustre", data_repositories=[{**LINK, "import": ["new", "moved"]}]),
        key="storage[0].data_repositories[0].import[1]",
        says="must be new, changed or deleted, got 'moved'",
        passes=storage("fsx-lustre", data_repositories=[{**LINK, "import": ["new", "deleted"]}]),
    ),
    "storage-on-delete": Case(
        fails=storage("efs", on_delete="snapshot"),
        key="storage[0].on_delete",
        says="must be delete or retain, got 'snapshot'",
        passes=storage("efs", on_delete="retain"),
    ),
    "head-on-delete": Case(
        fails=cluster(head_node={"on_delete": "keep"}),
        key="head_node.on_delete",
        says="must be delete, snapshot or retain, got 'keep'",
        passes=cluster(head_node={"on_delete": "retain"}),
    ),
    "head-volume-size": [
        Case(
            fails=cluster(head_node={"volume_gib": 65537}),
            key="head_node.volume_gib",
            says="must be at most 65536, got 65537",
            passes=cluster(head_node={"volume_gib": 65536}),
        ),
        Case(
            fails=cluster(head_node={"volume_gib": 5}),
            key="head_node.volume_gib",
            says="must be at least 10, got 5",
            passes=cluster(head_node={"volume_gib": 10}),
        ),
    ],
    "budget-at-limit": Case(
        fails=cluster(budget={"monthly_usd": 5000, "at_limit": "stop"}),
        key="budget.at_limit",
        says="must be notify, stop-launches or stop-nodes, got 'stop'",
        passes=cluster(budget={"monthly_usd": 5000, "at_limit": "notify"}),
    ),
    "budget-more-than-nothing": Case(
        fails=cluster(budget={"monthly_usd": 0.0}),
        key="budget.monthly_usd",
        says="must be greater than 0, got 0.0",
        passes=cluster(budget={"monthly_usd": 5000}),
    ),
    "scratch-mode": Case(
        fails=partition(scratch="on"),
        key="partitions[0].scratch",
        says="must be auto or off, got 'on'",
        passes=partition(scratch="off"),
    ),
    "s3-access-kind": Case(
        fails=cluster(s3_access=[{"uri": "s3://bucket/a", "access": "write"}]),
        key="s3_access[0].access",
        says="must be read or read-write, got 'write'",
        passes=cluster(s3_access=[{"uri": "s3://bucket/a", "access": "read-write"}]),
    ),
}
