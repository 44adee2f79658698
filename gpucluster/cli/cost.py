"""`gpucluster cost`: what jobs, users and nodes have cost, and what of it was wasted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isclose
from typing import TYPE_CHECKING, Any

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import CloudError, UsageError

if TYPE_CHECKING:
    from gpucluster.cli.training import costing
    from gpucluster.cluster.plan import Bill
    from gpucluster.config import ClusterConfig
    from gpucluster.following import cost

BY = ("job", "user", "partition", "task", "day", "month")
FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M"]
FORECAST_AFTER_S = 3600
MONEY = {"usd": "USD", "idle_usd": "idle", "failed_usd": "failed", "waiting_usd": "waiting"}
"""Column of a row -> its heading."""


@click.command()
@click.option("--by", type=click.Choice(BY), default="day", show_default=True, help="What a row is.")
@click.option(
    "--since",
    type=click.DateTime(FORMATS),
    metavar="DATE",
    help="Begin, in UTC: 2026-11-01 or 2026-11-01T14:30.  [default: the first of this month]",
)
@click.option(
    "--until", type=click.DateTime(FORMATS), metavar="DATE", help="End, in UTC; a date is included.  [default: now]"
)
@click.option("--json", "form", flag_value="json", help="Print one JSON object to stdout.")
@click.option("--csv", "form", flag_value="csv", help="Print comma-separated values to stdout.")
@click.pass_obj
def command(context: CliContext, by: str, since: datetime | None, until: datetime | None, form: str | None) -> int:
    """Show what the cluster has cost, at the list prices on demand.

    A job pays for its nodes from their launch until they end, or until the next job starts on them. Jobs that share a
    node divide its price. Of each amount, `idle` is time without a job, `failed` is of runs that failed, and
    `waiting` is time in which ranks waited for data. Training jobs on SageMaker follow, where a sagemaker.yaml is here.
    """
    from gpucluster.cli.frame import target

    now = time.time()
    times = Times.of(since, until, now)
    account = target.account(context)
    if account is None:
        _print(_of_cluster(context, by, times), None, form)
        return 0
    from gpucluster.cli.training import costing

    training = costing.read(account, by, times.since_s, times.until_s, now)
    found = None
    if target.has_cluster(context):
        try:
            found = _of_cluster(context, by, times)
        except CloudError as error:
            click.echo(f"warning: what the cluster has cost is not shown: {error.message}", err=True)
    _print(found, training, form)
    return 0


def _print(shown: Shown | None, training: costing.Shown | None, form: str | None) -> None:
    from gpucluster.cli.training import costing

    if form == "json":
        own = shown.as_json() if shown else {}
        click.echo(json.dumps(own | ({"sagemaker": training.as_json()} if training else {})))
        return
    if shown and form == "csv":
        click.echo(_csv(shown.table()), nl=False)
    elif shown:
        _show(shown)
    if training and form == "csv":
        if shown:
            click.echo("the training jobs on SageMaker are not in this table: --json has both", err=True)
        else:
            click.echo(_csv(training.table()), nl=False)
    elif training:
        click.echo("\non SageMaker:" if shown else "on SageMaker:", err=True)
        costing.show(training)


def _of_cluster(context: CliContext, by: str, times: Times) -> Shown:
    """Raises CloudError."""
    from gpucluster.cli.frame.connection import head
    from gpucluster.cluster import local_cloud, plan
    from gpucluster.following import cost
    from gpucluster.layout import expand

    config = context.load()
    bill = plan.bill(expand(config))
    beside = {item.name: item.usd_per_hour for item in bill.items if item.lasting and item.usd_per_hour}
    with head(context, config) as remote:
        found = cost.read(remote, config, times.since_s, times.until_s, beside)
    local = local_cloud.read(context.config_path, config.name) is not None
    saved, why = (None, "nobody bills this cluster") if local else _saved(context, config, found)
    return Shown(found, cost.rows(found, by), by, times, config, bill, saved, why, local)


def _saved(context: CliContext, config: ClusterConfig, found: cost.Account) -> tuple[float | None, str]:
    """What spot capacity saved, or None and the reason why that is not known."""
    from gpucluster.cluster import aws, spot_prices
    from gpucluster.following import cost

    of_spot = [each for each in found.charges if each.purchase == "spot"]
    if not of_spot:
        return 0.0, ""
    cloud, kinds = aws.connect(config, context.config_path), {each.type for each in of_spot}
    try:
        history = spot_prices.read(cloud, kinds, min(each.begin for each in of_spot), found.until_s)
    except CloudError as error:
        return None, str(error)
    saved = cost.saved_by_spot(found, history.usd)
    return saved, "" if saved is not None else "EC2's price history does not have all of this time"


@dataclass(frozen=True)
class Times:
    since_s: float
    until_s: float
    month_ends_s: float | None
    """If the time is this month until now."""

    @classmethod
    def of(cls, since: datetime | None, until: datetime | None, now_s: float) -> Times:
        """Raises UsageError."""
        now = datetime.fromtimestamp(now_s, UTC)
        begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        first = since.replace(tzinfo=UTC) if since else begin
        last = _end(until.replace(tzinfo=UTC)) if until else now
        if first >= min(last, now):
            said = f"{first:%Y-%m-%d %H:%M} is not before {min(last, now):%Y-%m-%d %H:%M} UTC"
            raise UsageError(f"--since: {said}", "give an earlier time, such as --since 2026-11-01")
        next_month = (begin + timedelta(days=32)).replace(day=1)
        this_month = first == begin and last >= now
        return cls(first.timestamp(), last.timestamp(), next_month.timestamp() if this_month else None)


def _end(until: datetime) -> datetime:
    return until + timedelta(days=1) if (until.hour, until.minute) == (0, 0) else until


@dataclass(frozen=True)
class Shown:
    found: cost.Account
    rows: Sequence[cost.Row]
    by: str
    times: Times
    config: ClusterConfig
    bill: Bill
    saved_by_spot: float | None
    spot_problem: str
    """Why that is not known."""
    local: bool = False
    """Whether the cluster runs on this machine."""

    def money(self) -> dict[str, list[int]]:
        """Column -> the cents of each row. No part of a row is more than the row."""
        from gpucluster.following import cost

        whole = cost.cents([row.usd for row in self.rows])
        parts = {column: [getattr(row, column) for row in self.rows] for column in MONEY if column != "usd"}
        rows = list(zip(self.rows, whole, strict=True))
        return {"usd": whole} | {
            column: [_part(usd, row.usd, cents) for usd, (row, cents) in zip(found, rows, strict=True)]
            for column, found in parts.items()
        }

    def usd(self) -> dict[str, float]:
        """Column -> its sum."""
        return {column: sum(cents) / 100 for column, cents in self.money().items()}

    def table(self) -> list[list[str]]:
        """The heading, and a row for each key."""
        money, jobs = self.money(), self._jobs()
        rows = [[self.by, *(jobs or {}).get("", []), "node-hours", *MONEY.values()]]
        for index, row in enumerate(self.rows):
            about = (jobs or {}).get(row.key, ["", "", ""]) if jobs else []
            usd = [f"{cents[index] / 100:.2f}" for cents in money.values()]
            usd[0] = "not known" if row.unpriced and not row.usd else usd[0]
            rows.append([row.key, *about, f"{row.node_hours:.2f}", *usd])
        return rows

    def _jobs(self) -> dict[str, list[str]] | None:
        from gpucluster.following import cost

        if self.by != "job":
            return None
        found = {each.job_id: [each.name, each.user, each.state] for each in cost.of_jobs(self.found)}
        return {"": ["name", "user", "state"], **found}

    def forecast_usd(self) -> float | None:
        """At the month's end, if it goes on as it did so far. None for another time, and in the first hour."""
        passed = self.found.until_s - self.found.begins
        if self.times.month_ends_s is None or passed < FORECAST_AFTER_S:
            return None
        spent = self.usd()["usd"]
        return round(spent + spent / passed * (self.times.month_ends_s - self.found.until_s), 2)

    def has_spot(self) -> bool:
        return any(each.purchase == "spot" for each in self.found.charges)

    def unpriced(self) -> list[str]:
        return sorted({each.type or "a partition of several types" for each in self.found.charges if each.usd is None})

    def not_included(self) -> list[str]:
        """Beside what has no price: file systems of jobs, of which nobody records how long they lived."""
        from gpucluster.cluster.plan import NOT_PRICED

        return [item.name for item in self.bill.items if item.usd_per_hour is None or not item.lasting] + [NOT_PRICED]

    def as_json(self) -> dict[str, Any]:
        heading, *rows = self.table()
        names = [{"USD": "usd", "node-hours": "node_hours"}.get(each, each) for each in heading]
        names = [f"{each}_usd" if each in ("idle", "failed", "waiting") else each for each in names]
        return {
            "since": _time(self.found.since_s),
            "until": _time(self.found.until_s),
            "rows": [dict(zip(names, map(_value, names, row), strict=True)) for row in rows],
            **self.usd(),
            "spot_saved_usd": None if self.saved_by_spot is None else round(self.saved_by_spot, 2),
            "forecast_usd": self.forecast_usd(),
            "budget_usd": self.config.budget.monthly_usd if self.config.budget else None,
            "unpriced": self.unpriced(),
            "prices": self.bill.where_and_when,
            "not_included": self.not_included(),
            "lacks": list(self.found.lacks),
        }


def _part(usd: float, of_usd: float, of_cents: int) -> int:
    """In cents, and all of them if it is the whole."""
    return of_cents if isclose(usd, of_usd) else min(round(usd * 100), of_cents)


def _value(name: str, cell: str) -> str | float | None:
    if name == "usd" or name.endswith(("_usd", "_hours")):
        return None if cell == "not known" else float(cell)
    return cell


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _show(shown: Shown) -> None:
    from gpucluster.cli.frame.columns import columns

    table = shown.table()
    total = ["total", *[""] * (len(table[0]) - len(MONEY) - 1), *(f"{usd:.2f}" for usd in shown.usd().values())]
    total[-len(MONEY) - 1] = f"{sum(row.node_hours for row in shown.rows):.2f}"
    click.echo("\n".join(columns([*table, total])))
    for sentence in _sentences(shown):
        click.echo(sentence, err=True)


def _sentences(shown: Shown) -> Iterator[str]:
    usd, config = shown.usd(), shown.config
    if usd["usd"]:
        parts = {"idle nodes": "idle_usd", "failed runs": "failed_usd", "ranks that waited for data": "waiting_usd"}
        said = ", ".join(f"{what} {usd[key]:.2f}" for what, key in parts.items())
        yield f"of {usd['usd']:.2f} USD: {said}"
    forecast = shown.forecast_usd()
    if forecast is not None:
        budget = f"; the budget is {config.budget.monthly_usd:,.2f}" if config.budget else ""
        yield f"at this rate, {forecast:,.2f} USD at the end of the month{budget}"
    if shown.saved_by_spot is not None and shown.has_spot():
        yield f"these are prices on demand; by EC2's price history, spot capacity saved {shown.saved_by_spot:,.2f}"
    elif shown.has_spot():
        yield f"spot nodes are counted at their price on demand; what they saved is not known: {shown.spot_problem}"
    if unpriced := shown.unpriced():
        yield f"without {', '.join(unpriced)}, whose price is not known"
    yield f"prices: {shown.bill.where_and_when}; not included: {', '.join(shown.not_included())}"
    yield from shown.found.lacks
    if shown.local:
        yield "the cluster runs on this machine: nobody bills this, it is what AWS would ask for the same time"


def _text(cell: str) -> str:
    """A spreadsheet would execute a job's name that begins like a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _csv(table: list[list[str]]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[_text(cell) for cell in row] for row in table])
    return text.getvalue()
