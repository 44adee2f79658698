"""What spot capacity has cost, from EC2's price history of the last 90 days: the price of an instance type changes a
few times a day. AWS's bill has the exact amount."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from gpucluster.cluster.api_errors import aws_errors

if TYPE_CHECKING:
    from gpucluster.cluster.aws import Aws

LINUX = "Linux/UNIX"
Change = tuple[float, float]
"""When, and USD an hour from then on."""


@dataclass(frozen=True)
class SpotPrices:
    changes: Mapping[str, Sequence[Change]]
    """Instance type -> its changes, the oldest first."""

    def usd(self, kind: str, begin: float, end: float) -> float | None:
        """An instance's price between two times. None if the history does not reach back so far."""
        changes = self.changes.get(kind, ())
        if not changes or changes[0][0] > begin:
            return None
        cuts = [*changes, (float("inf"), 0.0)]
        seconds = ((min(end, until) - max(begin, since), usd) for (since, usd), (until, _) in pairwise(cuts))
        return sum(usd * lasted / 3600 for lasted, usd in seconds if lasted > 0)


def read(cloud: Aws, kinds: Collection[str], since_s: float, until_s: float) -> SpotPrices:
    """In the zone of the head node, which is that of all nodes. Raises CloudError."""
    zone = cloud.head().zone
    changes: dict[str, list[Change]] = {}
    with aws_errors():
        ec2 = cloud.client("ec2")
        asked = {"InstanceTypes": sorted(kinds), "ProductDescriptions": [LINUX], "AvailabilityZone": zone}
        times = {"StartTime": datetime.fromtimestamp(since_s, UTC), "EndTime": datetime.fromtimestamp(until_s, UTC)}
        for page in ec2.get_paginator("describe_spot_price_history").paginate(**asked, **times):
            for each in page["SpotPriceHistory"]:
                change = each["Timestamp"].timestamp(), float(each["SpotPrice"])
                changes.setdefault(each["InstanceType"], []).append(change)
    return SpotPrices({kind: sorted(found) for kind, found in changes.items()})
