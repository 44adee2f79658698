"""List prices on demand by region: prices.csv, in USD per hour, or per GiB and month where the item's name says so.

An empty cell: no source. `of` then gives the price in us-east-1, and says so; nothing is converted or estimated.

Sources of instance types: us-east-1, Karpenter's price list of 2026-07-20. Other regions, the files that AWS's own EC2
pricing page loads, published on 2025-04-04 and kept by ec2.shop (github.com/yeo/ec2.shop); in us-east-1 these name the
same prices as Karpenter's list, but for m7i.metal-24xl and for those that AWS lowered in June 2025: p4d, p4de, p5 and
p5en. For the latter, and for p6, SkyPilot's catalogue v8 for AWS (github.com/skypilot-org/skypilot-catalog, commit
00148f2a). The copy has no date; it has p6-b300, so it is of November 2025 or later. Where both name one of these, they
agree. m7i.metal-24xl: AWS's file and the catalogue; Karpenter's list has a tenth more, as for each metal-24xl.

Other items: us-east-1, each figure stands in at least two of these, and they agree: AWS's pricing pages of VPC,
PrivateLink, EBS and FSx for Lustre as they were stored, and guides that repeat them with a date
(cloudburn.io/blog/aws-nat-gateway-pricing of 2026-02-24, which has us-east-2 as well, usage.ai/blogs/aws-network-costs
of May 2026, c3x.dev/resources/aws/aws_fsx_lustre_file_system). gp3 in other regions: AWS's file of 2024-07-18, kept by
ec2.shop. There are no prices of EFS, RDS, load balancers, other tiers of FSx for Lustre, data transfer and requests.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

REFERENCE = "us-east-1"
HOURS_PER_MONTH = 730
"""As in AWS's own calculator."""

GP3 = "gp3_gib_month"
NAT_GATEWAY = "nat_gateway"
PUBLIC_IPV4 = "public_ipv4"
INTERFACE_ENDPOINT = "interface_endpoint"
"""In one zone."""


class Price(NamedTuple):
    usd: float
    region: str
    """REFERENCE where the one that was asked for has no price."""
    as_of: str

    def times(self, count: float) -> Price:
        return self._replace(usd=self.usd * count)

    def hourly(self, gib: int) -> Price:
        """Of a price per GiB and month."""
        return self.times(gib / HOURS_PER_MONTH)


def of(item: str, region: str) -> Price | None:
    """item: an instance type, or one of the names above. None where not even REFERENCE has a price."""
    row = _table().get(item, {})
    return row.get(region) or row.get(REFERENCE)


def usd(item: str, region: str) -> float | None:
    found = of(item, region)
    return found.usd if found else None


def lustre(deployment: str, mbps_per_tib: int | None) -> str:
    """Its item."""
    return "_".join(filter(None, ("lustre", deployment, str(mbps_per_tib or ""), "gib_month")))


def told(region: str, used: Mapping[str, Price], also: Sequence[str] = ()) -> str:
    """Where and when these prices are true. used: instance type -> price; also: items with prices of REFERENCE."""
    if not used:
        return f"on demand in {region}"
    elsewhere = [name for name, price in used.items() if price.region != region]
    if len(elsewhere) == len(used):
        return f"on demand in {REFERENCE}, {_dates(used, REFERENCE)}: the prices in {region} are not known"
    here = f"on demand in {region}, {_dates(used, region)}"
    names = ", ".join([*elsewhere, *also])
    return f"{here}; price in {REFERENCE}: {names}" if names else here


def _dates(used: Mapping[str, Price], region: str) -> str:
    return " and ".join(sorted({price.as_of for price in used.values() if price.region == region}))


@cache
def _table() -> dict[str, dict[str, Price]]:
    """Item -> region -> price."""
    with Path(__file__).with_name("prices.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    regions = header[3:]
    return {
        item: {
            region: Price(float(cell), region, as_of if region == REFERENCE else others_as_of)
            for region, cell in zip(regions, cells, strict=True)
            if cell
        }
        for item, as_of, others_as_of, *cells in rows
    }
