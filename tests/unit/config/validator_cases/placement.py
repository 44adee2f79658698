from __future__ import annotations

from validator_cases.case import Case, cluster, partition

CASES = {
    "placement-group-not-a-strategy": [
        Case(
            fails=partition(placement_group="spread"),
            key="partitions[0].placement_group",
            says="'spread' is a strategy of EC2, and would be taken for a group's name",
            passes=partition(placement_group="training"),
        ),
        Case(
            fails=cluster(parameter_servers={"placement_group": "cluster"}),
            key="parameter_servers.placement_group",
            says="'cluster' is a strategy of EC2, and would be taken for a group's name",
            passes=cluster(parameter_servers={"placement_group": "none"}),
        ),
    ],
    "placement-group-not-misspelt": [
        *(
            Case(
                fails=partition(placement_group=typo),
                key="partitions[0].placement_group",
                says=f"{typo!r} would be taken for the name of a group that exists",
                passes=partition(placement_group=name),
            )
            for typo, name in (("Cluser", "my-cluster"), ("None", "cluster-1"))
        ),
        *(
            Case(
                fails=partition(placement_group=word),
                key="partitions[0].placement_group",
                says=f"{word!r} would be taken for the name of a group that exists",
                passes=partition(placement_group=f"{word}-1"),
            )
            for word in ("off", "Disabled", "auto", "yes", "default", "false")
        ),
        Case(
            fails=cluster(parameter_servers={"placement_group": "share"}),
            key="parameter_servers.placement_group",
            says="'share' would be taken for the name of a group that exists",
            passes=cluster(parameter_servers={"placement_group": "shared-by-all"}),
        ),
    ],
    "placement-group-takes-types": [
        Case(
            fails=partition(instance_types=["t3.xlarge"]),
            key="partitions[0].placement_group",
            says="EC2 launches no t3.xlarge into a group of nodes close together",
            passes=partition(instance_types=["t3.xlarge"], placement_group="none"),
        ),
        Case(
            fails=cluster(parameter_servers={"instance_type": "t3.2xlarge"}),
            key="parameter_servers.placement_group",
            says="EC2 launches no t3.2xlarge into a group of nodes close together",
            passes=cluster(parameter_servers={"instance_type": "t3.2xlarge", "placement_group": "none"}),
        ),
    ],
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
}
