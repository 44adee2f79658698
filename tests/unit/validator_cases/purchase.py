from __future__ import annotations

from validator_cases.case import Case, partition

RESERVED = {"purchase": "reservation", "reservation_id": "cr-0123456789abcdef0", "placement_group": "none"}

CASES = {
    "purchase-option": Case(
        fails=partition(purchase="ondemand"),
        key="partitions[0].purchase",
        says="must be on-demand, spot, reservation or capacity-block, got 'ondemand'",
        passes=partition(purchase="spot"),
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
    "reservation-without-placement-group": Case(
        fails=partition(**{**RESERVED, "placement_group": "cluster"}),
        key="partitions[0].placement_group",
        says="must be none with purchase: reservation, got 'cluster'",
        passes=partition(**RESERVED),
    ),
    "reservation-of-one-type": Case(
        fails=partition(**RESERVED, instance_types=["p4d.24xlarge", "p4de.24xlarge"]),
        key="partitions[0].instance_types",
        says="must be the one type that the reservation is for",
        passes=partition(**RESERVED),
    ),
}
