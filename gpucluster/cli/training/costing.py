"""`gpucluster cost` of training jobs, in the columns of the cluster's jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.following.cost import cents
from gpucluster.hardware import prices as ec2
from gpucluster.sagemaker import prices
from gpucluster.sagemaker.following import costs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.costs import Charge

_JSON = {"USD": "usd", "instance-hours": "instance_hours", "failed": "failed_usd", "spot saved": "spot_saved_usd"}
"""Heading of a column -> its key in JSON."""


@dataclass(frozen=True)
class Shown:
    charges: Sequence[Charge]
    by: str
    region: str

    def table(self) -> list[list[str]]:
        """The heading, and a row for each key."""
        found = costs.rows(self.charges, self.by)
        usd = cents([row.usd or 0.0 for row in found])
        about = ["name", "user", "state"] if self.by == "job" else []
        made = [[self.by, *about, "instance-hours", "USD", "failed", "spot saved"]]
        for row, whole in zip(found, usd, strict=True):
            job = row.charges[0].job
            of_job = [job.title, costs.NOT_RECORDED, job.state] if about else []
            text = "not known" if row.usd is None else f"{whole / 100:.2f}"
            made.append([row.key, *of_job, f"{row.hours:.2f}", text, f"{row.failed_usd:.2f}", f"{row.saved_usd:.2f}"])
        return made

    def totals(self) -> tuple[float, float, float, float]:
        """Hours; then USD: all, of failed jobs, saved by spot instances."""
        found = costs.rows(self.charges, self.by)
        usd = (row.usd or 0.0 for row in found)
        return (
            sum(row.hours for row in found),
            round(sum(usd), 2),
            round(sum(row.failed_usd for row in found), 2),
            round(sum(row.saved_usd for row in found), 2),
        )

    def as_json(self) -> dict[str, Any]:
        names = {
            "USD": "usd",
            "instance-hours": "instance_hours",
            "failed": "failed_usd",
            "spot saved": "spot_saved_usd",
        }
        heading, *found = self.table()
        keys = [names.get(each, each) for each in heading]
        hours, usd, failed, saved = self.totals()
        return {
            "rows": [dict(zip(keys, map(_value, keys, row), strict=True)) for row in found],
            "instance_hours": round(hours, 2),
            "usd": usd,
            "failed_usd": failed,
            "spot_saved_usd": saved,
            "unpriced": costs.unpriced(self.charges),
            "prices": self.prices(),
        }

    def prices(self) -> str:
        kinds = {each.job.instance_type.removeprefix(prices.PREFIX) for each in self.charges}
        used = {kind: price for kind in sorted(kinds) if (price := ec2.of(kind, self.region))}
        return f"EC2's {ec2.where_and_when(self.region, used)}, times SageMaker's factor of {prices.AS_OF}"


def read(account: Account, by: str, since_s: float, until_s: float, now: float) -> Shown:
    """Raises AwsError."""
    return Shown(costs.read(account, since_s, until_s, now), by, account.target.region)


def show(shown: Shown) -> None:
    table = shown.table()
    hours, *usd = shown.totals()
    total = ["total", *[""] * (len(table[0]) - 5), f"{hours:.2f}", *(f"{each:.2f}" for each in usd)]
    click.echo("\n".join(columns([*table, total])))
    for sentence in _sentences(shown):
        click.echo(sentence, err=True)


def _sentences(shown: Shown) -> Iterator[str]:
    yield f"prices of training jobs: {shown.prices()}; waiting for instances is free; storage is not included"
    if unpriced := costs.unpriced(shown.charges):
        yield f"without {', '.join(unpriced)}, whose price on SageMaker is not known"


def _value(key: str, cell: str) -> str | float | None:
    if key == "usd" or key.endswith(("_usd", "_hours")):
        return None if cell == "not known" else float(cell)
    return cell
