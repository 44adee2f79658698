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
        Case(
            fails=cluster(parameter_servers={"placement_group": "share"}),
            key="parameter_servers.placement_group",
            says="'share' would be taken for the name of a group that exists",
            passes=cluster(parameter_servers={"placement_group": "shared-by-all"}),
        ),
    ],
}
