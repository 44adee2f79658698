from __future__ import annotations

from validator_cases.case import PARTITION, Case, cluster, partition

CASES = {
    "partition-name-unique": Case(
        fails=cluster(partitions=[PARTITION, PARTITION]),
        key="partitions[1].name",
        says="'train' is the name of partitions[0] already",
        passes=cluster(partitions=[PARTITION, {**PARTITION, "name": "other"}]),
    ),
    "partition-name-free": Case(
        fails=partition(name="default"),
        key="partitions[0].name",
        says="'default' is taken: it is Slurm's word for the settings of all partitions",
        passes=partition(name="defaults"),
    ),
    "partition-types-unique": Case(
        fails=partition(instance_types=["p4d.24xlarge", "p4d.24xlarge"]),
        key="partitions[0].instance_types[1]",
        says="p4d.24xlarge is in the list already",
        passes=partition(instance_types=["p4d.24xlarge", "p4de.24xlarge"]),
    ),
    "partition-type-is-leaving": Case(
        fails=partition(instance_types=["p3.16xlarge"], image="ami-0123456789abcdef0"),
        key="partitions[0].instance_types[0]",
        says="AWS is withdrawing p3.16xlarge: it may not launch",
        passes=partition(instance_types=["p3dn.24xlarge"], image="ami-0123456789abcdef0"),
    ),
    "partition-types-same-gpus": Case(
        fails=partition(instance_types=["g5.12xlarge", "g5.48xlarge"]),
        key="partitions[0].instance_types[1]",
        says="g5.48xlarge has 8 GPUs, g5.12xlarge has 4 GPUs: all must have as many",
        passes=partition(instance_types=["g5.12xlarge", "g5.24xlarge"]),
    ),
    "partition-min-nodes": Case(
        fails=partition(min_nodes=9),
        key="partitions[0].min_nodes",
        says="must be at most max_nodes (8), got 9",
        passes=partition(min_nodes=8),
    ),
    "servers-min-nodes": Case(
        fails=cluster(parameter_servers={"min_nodes": 5, "max_nodes": 4}),
        key="parameter_servers.min_nodes",
        says="must be at most max_nodes (4), got 5",
        passes=cluster(parameter_servers={"min_nodes": 4, "max_nodes": 4}),
    ),
}
