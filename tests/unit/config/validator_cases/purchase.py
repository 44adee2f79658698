from __future__ import annotations

from validator_cases.case import Case, partition

RESERVED = {"purchase": "reservation", "reservation_id": "cr-0123456789abcdef0", "placement_group": "none"}

BLOCK = {**RESERVED, "purchase": "capacity-block"}

CASES = {
    "purchase-option": Case(
        fails=partition(purchase="ondemand"),
        key="partitions[0].purchase",
        says="must be on-demand, spot, reservation or capacity-block, got 'ondemand'",
        passes=partition(purchase="spot"),
    ),
    "spot-sold": Case(
        fails=partition(purchase="spot", instance_types=["hpc6a.48xlarge"]),
        key="partitions[0].instance_types[0]",
        says="EC2 does not sell hpc6a.48xlarge as spot",
        passes=partition(instance_types=["hpc6a.48xlarge"]),
    ),
    "reservation-has-id": Case(
        fails=partition(purchase="reservation", placement_group="none"),
        key="partitions[0].purchase",
        says="'reservation' needs reservation_id",
        passes=partition(**RESERVED),
    ),
    "reservation-id-is-used": Case(
        fails=partition(reservation_id="cr-0123456789abcdef0"),
        key="partitions[0].reservation_id",
        says="does nothing with purchase: on-demand",
        passes=partition(**RESERVED),
    ),
    "reservation-without-placement-group": [
        Case(
            fails=partition(**{**BLOCK, "placement_group": "my-group"}),
            key="partitions[0].placement_group",
            says="must be none with purchase: capacity-block, got 'my-group'",
            passes=partition(**BLOCK),
        ),
        Case(
            fails=partition(**{key: value for key, value in RESERVED.items() if key != "placement_group"}),
            key="partitions[0].placement_group",
            says="must be none or the name of a group with purchase: reservation, got 'cluster', the default",
            passes=partition(**RESERVED),
        ),
        Case(
            fails=partition(**{**RESERVED, "placement_group": "cluster"}),
            key="partitions[0].placement_group",
            says="must be none or the name of a group with purchase: reservation, got 'cluster'",
            passes=partition(**{**RESERVED, "placement_group": "my-group"}),
        ),
    ],
    "reservation-of-one-type": Case(
        fails=partition(**RESERVED, instance_types=["p4d.24xlarge", "p4de.24xlarge"]),
        key="partitions[0].instance_types",
        says="must list only the type that the reservation is for",
        passes=partition(**RESERVED),
    ),
    "capacity-block-types": Case(
        fails=partition(**BLOCK, instance_types=["g5.48xlarge"]),
        key="partitions[0].instance_types[0]",
        says="AWS sells no capacity blocks of g5.48xlarge",
        passes=partition(**BLOCK, instance_types=["p5.48xlarge"]),
    ),
    "capacity-block-size": Case(
        fails=partition(**BLOCK, max_nodes=65),
        key="partitions[0].max_nodes",
        says="must be at most 64 in a capacity block, got 65",
        passes=partition(**BLOCK, max_nodes=64),
    ),
}
