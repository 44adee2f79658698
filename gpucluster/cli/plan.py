"""`gpucluster plan`: what `up` would create, and its hourly price."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster import data_limits, plan
from gpucluster.config import ClusterConfig
from gpucluster.errors import CloudError, GpuClusterError
from gpucluster.layout import expand

if TYPE_CHECKING:
    from gpucluster.cli.changes import Comparison
    from gpucluster.cli.frame.training_plan import Shown

BOUGHT = {
    "spot": " (spot: at most this)",
    "reservation": " (reserved: billed whether it runs or not)",
    "capacity-block": " (Capacity Block: paid when you buy it)",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(context: CliContext, as_json: bool) -> int:
    """Show what `up` would create: nodes, zone, price per hour in USD. Changes nothing. Works without credentials.

    With AWS credentials it also shows whether the cluster exists, what `up` would change and what each change does,
    which zones offer every instance type, and what AWS would refuse: quotas, images, networks. If `up` would be
    refused, the exit code is that of `up`. For jobs on SageMaker (the section sagemaker, or
    `-c sagemaker.yaml` alone) it shows the price beside the cluster's, and checks quota, role, bucket and image.
    """
    from gpucluster.cli.frame import training_plan
    from gpucluster.sagemaker import found

    if where := found.alone(context.config_path, chosen=context.chosen):
        return _training(training_plan.read(where), as_json)
    config = context.load()
    layout = expand(config)
    bill, notes = plan.bill(layout), data_limits.notes(layout)
    cloud, unreachable = None, None
    try:
        cloud = _cloud(context, config, bill.lines)
    except CloudError as error:
        unreachable = error  # the offline part is shown in any case
    training = training_plan.read(found.in_cluster(config, context.config_path)) if config.sagemaker else None
    if as_json:
        own = {"sagemaker": training.as_json() if training else None}
        click.echo(json.dumps({**_json(config, bill, cloud), **own, "notes": notes}))
    else:
        _print(config, bill, cloud)
        if training:
            training_plan.show(training)
        click.echo("".join(f"note: {each}\n" for each in notes), err=True, nl=False)
    if unreachable:
        raise unreachable
    if cloud is None and not as_json:
        click.echo("AWS was not called: no credentials; `aws sso login` or `aws configure` sets them", err=True)
    refusal = _refusal(context, config, cloud)
    if refusal is None:
        return _refused(training)
    click.echo(f"`up` would be refused: {refusal.message}", err=True)
    return refusal.exit_code


def _training(shown: Shown, as_json: bool) -> int:
    """The plan of a sagemaker.yaml, which needs no cluster."""
    from gpucluster.cli.frame import training_plan

    if as_json:
        click.echo(json.dumps(shown.as_json()))
    else:
        training_plan.show(shown)
    if shown.faults is None and not as_json:
        click.echo("AWS was not called: no credentials; `aws sso login` or `aws configure` sets them", err=True)
    return _refused(shown)


def _refused(shown: Shown | None) -> int:
    from gpucluster.cli.frame import training_plan

    refusal = training_plan.refusal(shown) if shown else None
    if refusal is None:
        return 0
    click.echo(refusal.message, err=True)
    return refusal.exit_code


def _cloud(context: CliContext, config: ClusterConfig, lines: list[plan.Line]) -> dict[str, Any] | None:
    """The checks that call AWS; None without credentials."""
    from gpucluster.cluster import aws, online

    cloud = aws.connect(config, context.config_path)
    if not cloud.has_credentials():
        return None
    wanted = {name for line in lines for name in line.instance_types}
    with aws.aws_errors():
        zones = plan.zones_with(cloud.client("ec2"), wanted)
        comparison = _comparison(context, config)
    checks = online.ask(config, cloud)
    return {"stack_status": cloud.stack_status(), "zones": zones, "comparison": comparison, "checks": checks}


def _refusal(context: CliContext, config: ClusterConfig, cloud: dict[str, Any] | None) -> GpuClusterError | None:
    """The error that `up` would raise before it changes anything."""
    from gpucluster.cli import changes
    from gpucluster.cli.up import refuse_lost_images
    from gpucluster.cluster import aws, online

    if cloud is None:
        return None
    try:
        online.refuse(cloud["checks"])
        with aws.aws_errors():
            refuse_lost_images(context.config_path, config)
        changes.refuse_loss(cloud["comparison"])
    except GpuClusterError as error:
        return error
    return None


def _comparison(context: CliContext, config: ClusterConfig) -> Comparison:
    from gpucluster.cli import changes
    from gpucluster.cli.up import deployment_of, refuse_another, stopwatch

    tell = stopwatch()
    deployment = deployment_of(context.config_path, config, tell=tell)
    refuse_another(context.config_path, config)
    return changes.compare(deployment, config, tell)


def _json(config: ClusterConfig, bill: plan.Bill, cloud: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "name": config.name,
        "region": config.region,
        "availability_zone": config.availability_zone,
        "nodes": [
            {
                **asdict(line),
                "usd_per_hour_min": line.usd_per_hour_min,
                "usd_per_hour_max": line.usd_per_hour_max,
            }
            for line in bill.lines
        ],
        "beside_nodes": [asdict(item) for item in bill.items],
        "usd_per_hour_min": bill.usd_per_hour_min,
        "usd_per_hour_max": bill.usd_per_hour_max,
        "not_included": bill.not_included,
        "prices": bill.where_and_when,
        **(cloud["comparison"].as_json() if cloud else {"changes": None, "lost_heads": None}),
        "checks": [notice._asdict() for notice in cloud["checks"]] if cloud else None,
        "cloud": {key: cloud[key] for key in ("stack_status", "zones")} if cloud else None,
    }


def _print(config: ClusterConfig, bill: plan.Bill, cloud: dict[str, Any] | None) -> None:
    zone = config.availability_zone or f"the first zone of {config.region}"
    click.echo(f"{config.name} in {zone}")
    click.echo(f"  {'':<14}{'nodes':>8}  {'GPUs':>5}  {'$/hour':>17}  type")
    for line in bill.lines:
        nodes = f"{line.min_nodes}" if line.min_nodes == line.max_nodes else f"{line.min_nodes}-{line.max_nodes}"
        price = price_range(line.usd_per_hour_min, line.usd_per_hour_max)
        types = ", else ".join(line.instance_types) + BOUGHT.get(line.purchase, "") + _where(config, line.price_region)
        click.echo(f"  {line.name:<14}{nodes:>8}  {line.gpus or '':>5}  {price:>17}  {types}")
    for item in bill.items:
        click.echo(
            f"  {'':<14}{'':>8}  {'':>5}  {_item_price(item):>17}  {item.name}{_where(config, item.price_region)}"
        )
    total = price_range(bill.usd_per_hour_min, bill.usd_per_hour_max)
    click.echo(f"  {'total':<14}{'':>8}  {'':>5}  {total:>17}")
    click.echo(f"prices: {bill.where_and_when}; not included: {bill.not_included}", err=True)
    if cloud:
        _print_cloud(config, cloud)


def _where(config: ClusterConfig, region: str | None) -> str:
    return "" if region in (None, config.region) else f" (price in {region})"


def _item_price(item: plan.Item) -> str:
    if item.usd_per_hour is None:
        return "not included"
    return price_range(item.usd_per_hour if item.lasting else 0.0, item.usd_per_hour)


def _print_cloud(config: ClusterConfig, cloud: dict[str, Any]) -> None:
    click.echo(f"stack: {cloud['stack_status'] or 'does not exist yet'}")
    zones = ", ".join(cloud["zones"]) or "none"
    click.echo(f"zones of {config.region} that offer every type: {zones}")
    for notice in cloud["checks"]:
        click.echo(notice.render(), err=True)
    for line in cloud["comparison"].lines():
        click.echo(line)


def price_range(low: float | None, high: float | None) -> str:
    """USD."""
    if low is None or high is None:
        return "unknown"
    return f"{low:.2f}" if low == high else f"{low:.2f} - {high:.2f}"
