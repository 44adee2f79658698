from __future__ import annotations

from validator_cases.case import Case, partition

CASES = {
    "image-drives-gpus": Case(
        fails=partition(instance_types=["p3.16xlarge"]),
        key="partitions[0].instance_types[0]",
        says="p3.16xlarge cannot run dlami-ubuntu-24.04: its driver no longer supports V100",
        passes=partition(instance_types=["p3.16xlarge"], image="ami-0123456789abcdef0"),
    ),
}
