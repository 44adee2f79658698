from __future__ import annotations

from typing import Any

from validator_cases.case import cluster, partition

from online_cases.case import Answers, Online

HELD = {"reservation_id": "cr-0123456789abcdef0", "placement_group": "none"}
RESERVED = partition(purchase="reservation", **HELD)
BLOCK = partition(purchase="capacity-block", **HELD)
GROUPED = partition(placement_group="mine")
RESERVED_IN_GROUP = partition(purchase="reservation", **{**HELD, "placement_group": "mine"})
GROUP_ARN = "arn:aws:ec2:us-east-1:123456789012:placement-group/"


def reservation(**keys: Any) -> Answers:
    found = {
        "CapacityReservationId": "cr-0123456789abcdef0",
        "State": "active",
        "InstanceType": "p4d.24xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1a",
        "TotalInstanceCount": 8,
        **keys,
    }
    return {"ec2 describe_capacity_reservations": {"CapacityReservations": [found]}}


def group(**keys: Any) -> Answers:
    found = {"GroupName": "mine", "State": "available", "Strategy": "cluster", **keys}
    return {"ec2 describe_placement_groups": {"PlacementGroups": [found]}}


CASES: dict[str, Online | list[Online]] = {
    "reservation-exists": Online(
        RESERVED,
        key="partitions[0].reservation_id",
        says="the account sees no cr-0123456789abcdef0 in us-east-1",
        fails={"ec2 describe_capacity_reservations": "InvalidCapacityReservationId.NotFound"},
        passes=reservation(),
    ),
    "reservation-active": Online(
        RESERVED,
        key="partitions[0].reservation_id",
        says="cr-0123456789abcdef0 is expired",
        fails=reservation(State="expired"),
        passes=reservation(),
    ),
    "reservation-kind": [
        Online(
            RESERVED,
            key="partitions[0].purchase",
            says="cr-0123456789abcdef0 is a Capacity Block, got 'reservation'",
            fails=reservation(ReservationType="capacity-block"),
            passes=reservation(ReservationType="default"),
        ),
        Online(
            BLOCK,
            key="partitions[0].purchase",
            says="cr-0123456789abcdef0 is no Capacity Block, got 'capacity-block'",
            fails=reservation(ReservationType="default"),
            passes=reservation(ReservationType="capacity-block"),
        ),
    ],
    "reservation-matches": [
        Online(
            RESERVED,
            key="partitions[0].instance_types",
            says="cr-0123456789abcdef0 is for p5.48xlarge, got p4d.24xlarge",
            fails=reservation(InstanceType="p5.48xlarge"),
            passes=reservation(),
        ),
        Online(
            RESERVED,
            key="partitions[0].reservation_id",
            says="cr-0123456789abcdef0 is in us-east-1b, the cluster in us-east-1a",
            fails=reservation(AvailabilityZone="us-east-1b"),
            passes=reservation(),
        ),
        Online(
            RESERVED,
            key="partitions[0].reservation_id",
            says="cr-0123456789abcdef0 is for Windows with default tenancy, nodes are Linux/UNIX with default",
            fails=reservation(InstancePlatform="Windows"),
            passes=reservation(),
        ),
        Online(
            RESERVED,
            key="partitions[0].reservation_id",
            says="cr-0123456789abcdef0 is for Linux/UNIX with dedicated tenancy, nodes are Linux/UNIX with default",
            fails=reservation(Tenancy="dedicated"),
            passes=reservation(Tenancy="default"),
        ),
    ],
    "reservation-count": Online(
        RESERVED,
        key="partitions[0].max_nodes",
        says="cr-0123456789abcdef0 holds 4 instances, got 8",
        fails=reservation(TotalInstanceCount=4),
        passes=reservation(TotalInstanceCount=8),
    ),
    "reservation-placement-group": [
        Online(
            RESERVED_IN_GROUP,
            key="partitions[0].placement_group",
            says="cr-0123456789abcdef0 was made in no placement group, got 'mine'",
            fails=reservation(),
            passes=reservation(PlacementGroupArn=GROUP_ARN + "mine"),
        ),
        Online(
            RESERVED_IN_GROUP,
            key="partitions[0].placement_group",
            says="cr-0123456789abcdef0 was made in the placement group 'other', got 'mine'",
            fails=reservation(PlacementGroupArn=GROUP_ARN + "other"),
            passes=reservation(PlacementGroupArn=GROUP_ARN + "mine"),
        ),
    ],
    "reservation-group-is-named": Online(
        RESERVED,
        key="partitions[0].placement_group",
        says="cr-0123456789abcdef0 was made in the placement group 'mine', but nodes are launched into none",
        fails=reservation(PlacementGroupArn=GROUP_ARN + "mine"),
        passes=reservation(),
    ),
    "placement-group-exists": [
        Online(
            GROUPED,
            key="partitions[0].placement_group",
            says="the account has no placement group 'mine'",
            fails={"ec2 describe_placement_groups": "InvalidPlacementGroup.Unknown"},
            passes=group(),
        ),
        Online(
            cluster(parameter_servers={"placement_group": "mine"}),
            key="parameter_servers.placement_group",
            says="the account has no placement group 'mine'",
            fails={"ec2 describe_placement_groups": {"PlacementGroups": []}},
            passes=group(),
        ),
    ],
    "placement-group-strategy": Online(
        GROUPED,
        key="partitions[0].placement_group",
        says="'mine' is a spread group, which spreads nodes",
        fails=group(Strategy="spread"),
        passes=group(),
    ),
    "placement-group-available": Online(
        GROUPED,
        key="partitions[0].placement_group",
        says="'mine' is deleting",
        fails=group(State="deleting"),
        passes=group(),
    ),
}
