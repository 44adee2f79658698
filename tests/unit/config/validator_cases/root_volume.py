from __future__ import annotations

from typing import Any

from validator_cases.case import Case, Keys, cluster, partition

AMI = "ami-0123456789abcdef0"


def root(**keys: Any) -> Keys:
    return partition(root_volume=keys)


CASES: dict[str, Case | list[Case]] = {
    "root-volume-size": [
        Case(
            fails=root(gib=7),
            key="partitions[0].root_volume.gib",
            says="must be at least 8, got 7",
            passes=partition(root_volume={"gib": 8}, image=AMI),
        ),
        Case(
            fails=cluster(head_node={"root_volume": {"gib": 65537}}),
            key="head_node.root_volume.gib",
            says="must be at most 65536, got 65537",
            passes=cluster(head_node={"root_volume": {"gib": 65536}}),
        ),
    ],
    "root-volume-iops": Case(
        fails=root(iops=2999),
        key="partitions[0].root_volume.iops",
        says="must be at least 3000, got 2999",
        passes=root(iops=80000, gib=160),
    ),
    "root-volume-throughput": Case(
        fails=root(throughput_mibps=2001, iops=16000),
        key="partitions[0].root_volume.throughput_mibps",
        says="must be at most 2000, got 2001",
        passes=root(throughput_mibps=2000, iops=16000),
    ),
    "root-volume-iops-fit": [
        Case(
            fails=root(gib=100, iops=50001),
            key="partitions[0].root_volume.iops",
            says="a disk of 100 GiB has at most 50000 IOPS, got 50001",
            passes=root(gib=100, iops=50000),
        ),
        Case(
            fails=root(iops=50001),
            key="partitions[0].root_volume.iops",
            says="a disk of 100 GiB has at most 50000 IOPS, got 50001",
            passes=partition(root_volume={"iops": 50001}, image=AMI),
        ),
        Case(
            fails=cluster(head_node={"root_volume": {"throughput_mibps": 751}}),
            key="head_node.root_volume.throughput_mibps",
            says="a disk of 3000 IOPS has at most 750 MiB/s, got 751",
            passes=cluster(head_node={"root_volume": {"throughput_mibps": 750}}),
        ),
        Case(
            fails=cluster(parameter_servers={"root_volume": {"throughput_mibps": 1001, "iops": 4000}}),
            key="parameter_servers.root_volume.throughput_mibps",
            says="a disk of 4000 IOPS has at most 1000 MiB/s, got 1001",
            passes=cluster(parameter_servers={"root_volume": {"throughput_mibps": 1000, "iops": 4000}}),
        ),
    ],
    "root-volume-holds-image": Case(
        fails=root(gib=40),
        key="partitions[0].root_volume.gib",
        says="dlami-ubuntu-24.04 needs a disk of 75 GiB, got 40",
        passes=partition(root_volume={"gib": 40}, image=AMI),
    ),
}
