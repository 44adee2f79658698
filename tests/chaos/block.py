"""The Capacity Block of the chaos table's cluster."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bed import Bed


def configure(bed: Bed) -> None:
    """Writes the cluster file, with the id of a block that does not end soon."""
    shutil.copy(Path(__file__).with_name("cluster.yaml"), bed.config)
    found = bed.client("ec2").describe_capacity_reservations()["CapacityReservations"]
    lasting = [each for each in found if each["EndDate"] > datetime.now(UTC) + timedelta(hours=2)]
    use(bed, lasting[0]["CapacityReservationId"] if lasting else bought(bed))


def bought(bed: Bed) -> str:
    ec2 = bed.client("ec2")
    wanted = {"InstanceType": "p4d.24xlarge", "InstanceCount": 2, "CapacityDurationHours": 24}
    (offering,) = ec2.describe_capacity_block_offerings(**wanted)["CapacityBlockOfferings"]
    named = {"CapacityBlockOfferingId": offering["CapacityBlockOfferingId"], "InstancePlatform": "Linux/UNIX"}
    return str(ec2.purchase_capacity_block(**named)["CapacityReservation"]["CapacityReservationId"])


def used(bed: Bed) -> list[str]:
    return re.findall("reservation_id: (cr-[0-9a-f]+)", bed.config.read_text())


def use(bed: Bed, block: str) -> None:
    """Writes its id to the cluster file."""
    bed.config.write_text(re.sub("reservation_id: cr-[0-9a-f]+", f"reservation_id: {block}", bed.config.read_text()))
