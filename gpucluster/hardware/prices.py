"""On-demand list prices by region, from prices.csv. The unit is USD per hour, or USD per GiB and month for items whose
name ends with gib_month.

An empty cell means that no source has this price. `of` then returns the price in us-east-1, with that region. No price
is converted or estimated.

Sources for instance types:
- us-east-1: Karpenter's price list of 2026-07-20.
- Other regions: the files that AWS's EC2 pricing page loads, of 2025-04-04, from ec2.shop (github.com/yeo/ec2.shop). In
  us-east-1 they have the same prices as Karpenter's list, except for c7i.metal-24xl and m7i.metal-24xl, and for p4d,
  p4de, p5 and p5en, whose prices AWS lowered in June 2025.
- p4d, p4de, p5, p5en and p6 in other regions: SkyPilot's catalogue v8 for AWS
  (github.com/skypilot-org/skypilot-catalog, commit 00148f2a). It has no date, but it has p6-b300, so it is of November
  2025 or later. For types that both have, its prices are the same as Karpenter's.
- m7i.metal-24xl: AWS's file and the catalogue. Karpenter's list has 10 % more, as for each metal-24xl.
- Other metal-24xl in us-east-1: AWS's file where it has them, for the same reason.

tools/instance_types.py adds the rows of further types from the first two.

Sources for other items:
- us-east-1: each price is in at least two of these, and they agree: AWS's pricing pages of VPC, PrivateLink, EBS and
  FSx for Lustre; and guides with a date (cloudburn.io/blog/aws-nat-gateway-pricing of 2026-02-24, which also has
  us-east-2; usage.ai/blogs/aws-network-costs of May 2026; c3x.dev/resources/aws/aws_fsx_lustre_file_system).
- gp3 in other regions: AWS's file of 2024-07-18, from ec2.shop.

There are no prices of EFS, RDS, load balancers, other tiers of FSx for Lustre, data transfer and requests.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

REFERENCE = "us-east-1"
HOURS_PER_MONTH = 730
"""AWS's pricing calculator uses the same number."""

GP3 = "gp3_gib_month"
NAT_GATEWAY = "nat_gateway"
PUBLIC_IPV4 = "public_ipv4"
INTERFACE_ENDPOINT = "interface_endpoint"
"""For one availability zone."""


class Price(NamedTuple):
    usd: float
    region: str
    """REFERENCE if there is no price for the requested region."""
    as_of: str

    def times(self, count: float) -> Price:
        return self._replace(usd=self.usd * count)

    def hourly(self, gib: int) -> Price:
        """From a price per GiB and month: the price of `gib` per hour."""
        return self.times(gib / HOURS_PER_MONTH)


def of(item: str, region: str) -> Price | None:
    """item: an instance type, or one of the names above. None if there is no price for REFERENCE either."""
    regions, rows = _table()
    if item not in rows:
        return None
    as_of, others_as_of, *cells = rows[item]
    usd = {name: cell for name, cell in zip(regions, cells, strict=True) if cell}
    if region != REFERENCE and region in usd:
        return Price(float(usd[region]), region, others_as_of)
    return Price(float(usd[REFERENCE]), REFERENCE, as_of) if REFERENCE in usd else None


def usd(item: str, region: str) -> float | None:
    found = of(item, region)
    return found.usd if found else None


def lustre(deployment: str, mbps_per_tib: int | None) -> str:
    """The item's name in prices.csv, such as lustre_persistent_2_125_gib_month."""
    return "_".join(filter(None, ("lustre", deployment, str(mbps_per_tib or ""), "gib_month")))


def where_and_when(region: str, used: Mapping[str, Price], also: Sequence[str] = ()) -> str:
    """The region and the date of these prices. used: instance type -> price; also: items with prices of REFERENCE."""
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
def _table() -> tuple[list[str], dict[str, list[str]]]:
    """The regions, and item -> the two dates and the cells of its row. Only the rows that are asked for are parsed."""
    with Path(__file__).with_name("prices.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return header[3:], {item: row for item, *row in rows}
