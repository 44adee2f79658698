from __future__ import annotations

from validator_cases.case import PARTITION, Case, Keys, cluster


def software(*frameworks: str, on: list[str] = ["p4d.24xlarge"]) -> Keys:  # noqa: B006
    partitions = [{**PARTITION, "name": f"p{number}a", "instance_types": [name]} for number, name in enumerate(on)]
    return cluster(software={"frameworks": list(frameworks)}, partitions=partitions)


CASES: dict[str, Case | list[Case]] = {
    "horovod-needs-framework": [
        Case(
            fails=software("horovod"),
            key="software.frameworks[0]",
            says="horovod needs torch or tensorflow, but the list has neither",
            passes=software("torch", "horovod"),
        ),
        Case(
            fails=software("mxnet", "horovod"),
            key="software.frameworks[1]",
            says="horovod needs torch or tensorflow, but the list has neither",
            passes=software("tensorflow", "horovod"),
        ),
    ],
    "smddp-needs-torch": Case(
        fails=software("smddp", "tensorflow"),
        key="software.frameworks[0]",
        says="smddp is a backend of torch.distributed, but torch is not in the list",
        passes=software("torch", "smddp"),
    ),
    "smddp-instance-types": Case(
        fails=software("torch", "smddp", on=["p5.48xlarge"]),
        key="software.frameworks[1]",
        says="smddp runs on p3dn.24xlarge, p4d.24xlarge and p4de.24xlarge only, but no partition has one",
        passes=software("torch", "smddp", on=["p4de.24xlarge"]),
    ),
    "mxnet-gpus": Case(
        fails=software("mxnet", on=["p5.48xlarge"]),
        key="software.frameworks[0]",
        says="mxnet's CUDA 11.2 supports none of the cluster's GPUs: h100",
        passes=software("mxnet", on=["p4d.24xlarge"]),
    ),
}
