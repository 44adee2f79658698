from __future__ import annotations

from validator_cases.case import Case, cluster, partition

AMI = "ami-0123456789abcdef0"
OLD = {"name": "old", "instance_types": ["p3.16xlarge"], "max_nodes": 2}
NEW = {"name": "new", "instance_types": ["p6-b300.48xlarge"], "max_nodes": 2}

CASES = {
    "image-drives-gpus": Case(
        fails=partition(instance_types=["p3.16xlarge"]),
        key="partitions[0].instance_types[0]",
        says="p3.16xlarge cannot run dlami-ubuntu-24.04: its driver no longer supports V100",
        passes=partition(instance_types=["p3.16xlarge"], image=AMI),
    ),
    "image-one-driver": [
        Case(
            fails=partition(instance_types=["p3.16xlarge", "p6-b200.48xlarge"], image=AMI, efa="off"),
            key="partitions[0].instance_types[1]",
            says="p6-b200.48xlarge and p3.16xlarge share no driver: NVIDIA's open one and the proprietary one",
            passes=partition(instance_types=["p5.48xlarge", "p6-b200.48xlarge"]),
        ),
        Case(
            fails=cluster(software={"image": AMI}, partitions=[OLD, NEW]),
            key="partitions[1].instance_types[0]",
            says="p6-b300.48xlarge and p3.16xlarge share no driver: NVIDIA's open one and the proprietary one",
            passes=cluster(partitions=[{**OLD, "image": AMI}, NEW]),
        ),
    ],
}
