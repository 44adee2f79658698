from __future__ import annotations

from validator_cases.case import Case, Keys, cluster


def head(**keys: object) -> Keys:
    return cluster(head_node=keys)


CASES: dict[str, Case | list[Case]] = {
    "head-on-nitro": [
        Case(
            fails=head(instance_type=name),
            key="head_node.instance_type",
            says=f"{name} runs on Xen: the head node needs a Nitro type, whose volumes are NVMe devices",
            passes=head(instance_type=instead),
        )
        for name, instead in (("m4.2xlarge", "m6i.2xlarge"), ("t2.large", "t3.large"), ("i3.large", "i3en.large"))
    ],
    "head-snapshot-count": Case(
        fails=head(snapshot_days=1001),
        key="head_node.snapshot_days",
        says="must be at most 1000, got 1001",
        passes=head(snapshot_days=1000),
    ),
    "head-home-outlives-cluster": [
        Case(
            fails=head(on_delete="delete", snapshot_days=0),
            key="head_node.on_delete",
            says="/home and the accounting are deleted with the cluster",
            passes=head(on_delete="retain"),
        ),
        Case(
            fails=head(on_delete="delete"),
            key="head_node.on_delete",
            says="/home and the accounting are deleted with the cluster",
            passes={**head(on_delete="delete"), "storage": [{"mount": "/home", "type": "efs"}]},
        ),
    ],
}
