from __future__ import annotations

from gpucluster.hardware.instances import INSTANCE_TYPES
from validator_cases.case import Case, cluster, partition

ONE_LINE = "Slurm has one definition for all nodes of a partition"
WITHOUT_GPUS = [name for name in INSTANCE_TYPES if name.startswith(("c5", "m6", "r5"))]

CASES = {
    "partition-types-unique": Case(
        fails=partition(instance_types=["p4d.24xlarge", "p4d.24xlarge"]),
        key="partitions[0].instance_types[1]",
        says="p4d.24xlarge is already in the list",
        passes=partition(instance_types=["p4d.24xlarge", "p4de.24xlarge"]),
    ),
    "partition-types-same-gpus": Case(
        fails=partition(instance_types=["g5.12xlarge", "g5.48xlarge"]),
        key="partitions[0].instance_types[1]",
        says="g5.48xlarge has 8 GPUs, g5.12xlarge has 4 GPUs: all must have as many",
        passes=partition(instance_types=["g5.12xlarge", "g5.24xlarge"]),
    ),
    "partition-types-same-threads": Case(
        fails=partition(instance_types=["m6i.large", "m7a.large"]),
        key="partitions[0].instance_types[1]",
        says="m7a.large has 1 thread a core, m6i.large has 2 threads a core: all must have as many",
        passes=partition(instance_types=["m6i.large", "m7a.large"], threads_per_core=1),
    ),
    "threads-per-core": Case(
        fails=partition(threads_per_core=4),
        key="partitions[0].threads_per_core",
        says="must be at most 2, got 4",
        passes=partition(threads_per_core=2),
    ),
    "threads-per-core-possible": [
        Case(
            fails=partition(threads_per_core=1, instance_types=["g5.12xlarge"]),
            key="partitions[0].threads_per_core",
            says="EC2 cannot launch g5.12xlarge with one thread a core",
            passes=partition(threads_per_core=1),
        ),
        Case(
            fails=cluster(head_node={"threads_per_core": 1, "instance_type": "m6i.metal"}),
            key="head_node.threads_per_core",
            says="EC2 cannot launch m6i.metal with one thread a core",
            passes=cluster(head_node={"threads_per_core": 1}),
        ),
        Case(
            fails=cluster(parameter_servers={"threads_per_core": 2, "instance_type": "m7a.large"}),
            key="parameter_servers.threads_per_core",
            says="m7a.large has one thread a core",
            passes=cluster(parameter_servers={"threads_per_core": 1, "instance_type": "m7a.large"}),
        ),
    ],
    "partition-types-alike": [
        Case(
            fails=partition(instance_types=["g4dn.xlarge", "p5.4xlarge"]),
            key="partitions[0].instance_types[1]",
            says="p5.4xlarge is used with 4 of its 16 CPUs, as many as g4dn.xlarge has: " + ONE_LINE,
            passes=partition(instance_types=["g5.12xlarge", "g6.12xlarge", "g6e.12xlarge"]),
            times=2,
        ),
        Case(
            fails=partition(instance_types=["g4dn.4xlarge", "p5.4xlarge"]),
            key="partitions[0].instance_types[1]",
            says="p5.4xlarge has H100 with 80 GiB, g4dn.4xlarge has T4 with 16 GiB: a job may get both, at the "
            "speed of the slower, and cannot ask for one",
            passes=partition(instance_types=["p4d.24xlarge", "p4de.24xlarge"]),
        ),
        Case(
            fails=partition(instance_types=["g5.16xlarge", "g5.xlarge"]),
            key="partitions[0].instance_types[0]",
            says="g5.16xlarge is used with 4 of its 64 CPUs, as many as g5.xlarge has: " + ONE_LINE,
            passes=partition(instance_types=["g5.12xlarge", "g5.24xlarge"]),
        ),
    ],
    "partition-types-fit-parameter": Case(
        fails=partition(instance_types=WITHOUT_GPUS[:37], efa="off"),
        key="partitions[0].instance_types",
        says="has 37 types; the SSM parameter that lists them holds 36",
        passes=partition(instance_types=WITHOUT_GPUS[:36], efa="off"),
    ),
    "partition-has-types": Case(
        fails=partition(instance_types=[]),
        key="partitions[0].instance_types",
        says="must have at least one entry, got []",
        passes=partition(instance_types=["g5.xlarge"]),
    ),
    "cluster-has-partitions": Case(
        fails=cluster(partitions=[]),
        key="partitions",
        says="must have at least one entry, got []",
        passes=cluster(),
    ),
    "partition-node-count": [
        Case(
            fails=partition(max_nodes=0),
            key="partitions[0].max_nodes",
            says="must be at least 1, got 0",
            passes=partition(max_nodes=1),
        ),
        Case(
            fails=partition(min_nodes=-1),
            key="partitions[0].min_nodes",
            says="must be at least 0, got -1",
            passes=partition(min_nodes=0),
        ),
    ],
    "partition-min-nodes": Case(
        fails=partition(min_nodes=9),
        key="partitions[0].min_nodes",
        says="must be at most max_nodes (8), got 9",
        passes=partition(min_nodes=8),
    ),
    "idle-minutes-above-zero": Case(
        fails=partition(idle_minutes=0.0),
        key="partitions[0].idle_minutes",
        says="must be greater than 0, got 0.0",
        passes=partition(idle_minutes=0.5),
    ),
    "idle-minutes-in-range": [
        Case(
            fails=partition(idle_minutes=0.001),
            key="partitions[0].idle_minutes",
            says="must be 1/60 to 71582788, got 0.001",
            passes=partition(idle_minutes=0.1),
        ),
        Case(
            fails=partition(idle_minutes=1e9),
            key="partitions[0].idle_minutes",
            says="must be 1/60 to 71582788, got 1e+09",
            passes=partition(idle_minutes=1e6),
        ),
    ],
    "servers-node-count": Case(
        fails=cluster(parameter_servers={"max_nodes": 0}),
        key="parameter_servers.max_nodes",
        says="must be at least 1, got 0",
        passes=cluster(parameter_servers={"max_nodes": 1}),
    ),
}
