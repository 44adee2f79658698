from __future__ import annotations

from validator_cases.case import Case, partition

CASES = {
    "efa-mode": Case(
        fails=partition(efa="eaf"),
        key="partitions[0].efa",
        says="must be auto, required or off, got 'eaf'",
        passes=partition(efa="auto"),
    ),
    "efa-required-needs-efa-types": Case(
        fails=partition(instance_types=["g5.xlarge"], efa="required"),
        key="partitions[0].efa",
        says="'required' needs types with EFA interfaces, and g5.xlarge has none",
        passes=partition(efa="required"),
    ),
    "efa-types-alike": Case(
        fails=partition(instance_types=["g5.8xlarge", "g5.4xlarge"]),
        key="partitions[0].instance_types",
        says="g5.4xlarge without EFA beside g5.8xlarge with it: a job that gets both has no common network but TCP",
        passes=partition(instance_types=["g5.8xlarge", "g5.4xlarge"], efa="off"),
    ),
    "efa-not-off": Case(
        fails=partition(instance_types=["p5.48xlarge"], efa="off"),
        key="partitions[0].efa",
        says="'off' leaves jobs on p5.48xlarge with TCP between nodes",
        passes=partition(instance_types=["p5.48xlarge"], efa="off", max_nodes=1),
    ),
    "efa-close-together": Case(
        fails=partition(placement_group="none"),
        key="partitions[0].placement_group",
        says="'none' lets p4d.24xlarge nodes be far apart: EFA is slower there",
        passes=partition(placement_group="none", instance_types=["p4d.24xlarge"], max_nodes=1),
    ),
}
