"""The price that `up` and `submit` show before they start something, and `up`'s question about it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gpucluster.cluster.plan import Bill, bill, lines, where_and_when
from gpucluster.config import ClusterConfig
from gpucluster.errors import UsageError
from gpucluster.job.spec import JobSpec, seconds_of
from gpucluster.layout import Layout, expand

if TYPE_CHECKING:
    from gpucluster.sagemaker.target import Target


def tell_price(old: ClusterConfig | None, new: ClusterConfig, *, ask: bool) -> None:
    """Shows the price of a new cluster, or of one whose price changes. Asks if the minimum price increases.

    It does not ask in a script, where nobody can answer. Raises UsageError if the answer is no.
    """
    before = bill(expand(old)) if old else None
    after = bill(expand(new))
    if before and _range(before) == _range(after):
        return
    click.echo(sentence(new, after), err=True)
    rises = before is None or (after.usd_per_hour_min or 0.0) > (before.usd_per_hour_min or 0.0)
    if ask and rises and sys.stdin.isatty() and not click.confirm("Start it?", err=True):
        raise UsageError("nothing was started", "answer y, or give --yes")


NO_LIMIT = "; it has no time limit: --time 4:00:00 sets one"


def sentence(config: ClusterConfig, bill: Bill) -> str:
    prices = f"{bill.where_and_when}; not included: {bill.not_included}"
    if bill.usd_per_hour_min is None or bill.usd_per_hour_max is None:
        return f"price: not known for every instance type of {config.name} ({prices})"
    return (
        f"price: ${bill.usd_per_hour_min:.2f} an hour while {config.name} exists, "
        f"at most ${bill.usd_per_hour_max:.2f} an hour with all nodes ({prices})"
    )


def of_job(layout: Layout, spec: JobSpec, server_nodes: int) -> str | None:
    """The on-demand price of its nodes; None if a price is unknown or the nodes are already paid for."""
    by_name = {line.name: line for line in lines(layout)}
    line = by_name.get(spec.partition or "")
    servers = by_name[layout.servers.name] if layout.servers else None
    if line is None or not line.usd_per_node_hour:
        return None
    an_hour = line.usd_per_node_hour * spec.nodes
    an_hour += (servers.usd_per_node_hour or 0.0) * server_nodes if servers else 0.0
    whole = f", ${an_hour * seconds_of(spec.time) / 3600:.2f} within its time limit" if spec.time else NO_LIMIT
    types = [*line.instance_types, *(servers.instance_types if servers and server_nodes else ())]
    return f"price: at most ${an_hour:.2f} an hour while it runs{whole} ({where_and_when(layout.config.region, types)})"


def of_training(spec: JobSpec, target: Target) -> str | None:
    """The on-demand price of a job's instances on SageMaker; None if it is unknown."""
    from gpucluster.sagemaker import prices, request

    found = prices.of(target.instance_type, target.region)
    if found is None:
        return None
    an_hour = found.usd * spec.nodes
    most = f"${an_hour * request.runtime_s(spec) / 3600:.2f} within its time limit"
    spot = "; spot: at most this" if target.spot else ""
    where = "" if found.region == target.region else f" (price in {found.region})"
    return f"price: at most ${an_hour:.2f} an hour while it runs, {most}{where}{spot}"


def _range(bill: Bill) -> tuple[float | None, float | None]:
    return bill.usd_per_hour_min, bill.usd_per_hour_max
