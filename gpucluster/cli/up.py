"""`gpucluster up [--local]`: creates or updates the cluster of the file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import click

from gpucluster import shipped
from gpucluster.cli.frame import local_options, money
from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster import cdk, local_cloud, register
from gpucluster.cluster.deployment import Deployment
from gpucluster.config import ClusterConfig
from gpucluster.errors import INTERRUPTED_EXIT_CODE, CloudError, UsageError


@click.command()
@click.option(
    "--local", is_flag=True, help="Build the cluster on this machine in a local cloud. If none runs, start one."
)
@local_options.port
@local_options.image
@click.option(
    "--wheels",
    type=click.Path(path_type=Path),
    default=local_cloud.DEFAULT_WHEELS,
    metavar="FOLDER",
    help=f"With --local: Python wheels that the nodes install.  [default: {local_cloud.DEFAULT_WHEELS}]",
)
@click.option(
    "--drain",
    is_flag=True,
    help="If a change terminates running nodes, or restarts or replaces the head node, wait for the jobs first.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation of a new or a higher price.")
@click.pass_obj
def command(
    context: CliContext, local: bool, port: int | None, image: Path | None, wheels: Path, drain: bool, yes: bool
) -> int:
    """Create the cluster, or update it to match the cluster file. Without changes it does nothing.

    It first lists what each change does to the cluster. It refuses changes that would lose data. While jobs run, it
    also refuses changes that terminate their nodes, or that restart or replace the head node, unless you give --drain.
    Then it shows the price per hour. In a terminal it asks you before it creates a cluster, and before the price of a
    cluster without jobs rises.

    The last line on stdout is a JSON object: name, region, changed, changes, lost_heads (head nodes that somebody had
    terminated), outputs, seconds.
    """
    from gpucluster.cli import changes
    from gpucluster.cluster.aws import aws_errors

    config = context.load()
    if not local and (port or image):
        raise UsageError("--port and --image need --local", "add --local, or leave them out")
    tell = stopwatch()
    cdk.fetch(tell)
    if local:
        register.refuse_local(context.config_path, name=config.name, region=config.region)
        start_local_cloud(context.config_path, config, port=port, image=image, wheels=wheels, tell=tell)
    began = time.monotonic()
    deployment = deployment_of(context.config_path, config, tell=tell)
    try:
        with aws_errors(), deployment.turn("up"):
            refuse_another(context.config_path, config)
            ask_account(context.config_path, config)
            use_door(context.config_path, config)
            refuse_lost_images(context.config_path, config)
            pin_larger_disks(context.config_path, config)
            deployment.let_finish()
            comparison = changes.compare(deployment, config, tell)
            for line in comparison.lines():
                click.echo(line, err=True)
            changes.refuse_loss(comparison)
            if comparison.known and not local_cloud.read(context.config_path, config.name):
                money.tell_price(comparison.old, config, ask=not yes)
            with changes.nodes_out_of_service(comparison, context.config_path, deployment, tell, drain=drain):
                deployment.register()
                again = comparison.launches_again
                changed = deployment.up(os.environ, since=comparison.since, launches_again=again)
            outputs = deployment.outputs()
    except KeyboardInterrupt:
        return interrupted(deployment)
    click.echo(_next_commands(config, changed), err=True)
    if lost := lost_volume(context.config_path, config):
        click.echo(lost, err=True)
    what = {"name": config.name, "region": config.region, "changed": changed, **comparison.as_json()}
    click.echo(json.dumps({**what, "outputs": outputs, "seconds": round(time.monotonic() - began, 1)}))
    return 0


def stopwatch() -> Callable[[str], None]:
    """Prints a line to stderr with the seconds since the verb began."""
    began = time.monotonic()
    return lambda line: click.echo(f"[{time.monotonic() - began:4.0f} s] {line}", err=True)


def refuse_another(config_file: Path, config: ClusterConfig) -> list[register.Entry]:
    """Raises UsageError if `up` created this file's cluster in another region or account: that one would continue to
    cost money without a file. Returns the clusters that the file created under another name, and says so."""
    from gpucluster.cluster import aws, left_behind

    cloud = aws.connect(config, config_file)
    account = cloud.account()
    others = left_behind.forget_deleted(config_file, config, account)
    cloud.refuse_another(account)
    for entry in others:
        click.echo(f"warning: {left_behind.words(entry)}", err=True)
    return others


def ask_account(config_file: Path, config: ClusterConfig) -> None:
    """Checks with AWS before anything changes. Raises ConfigError or QuotaError for what AWS would refuse."""
    from gpucluster.cluster import aws, online

    notices = online.ask(config, aws.connect(config, config_file))
    for notice in notices:
        if notice.level == "warning":
            click.echo(notice.render(), err=True)
    online.refuse(notices)


def use_door(config_file: Path, config: ClusterConfig) -> None:
    """Finds the EC2 Instance Connect Endpoint of an existing VPC, which can have only one."""
    if config.network.vpc_id and not config.network.connect_endpoint_id:
        from gpucluster.cluster import aws, doors, online
        from gpucluster.config.checks.online.account import Refused

        try:
            door = doors.follow(config_file, config, online.LiveAccount(aws.connect(config, config_file).client))
        except Refused:  # the account's checks have said so
            return
        if door:
            click.echo(f"SSH comes through {door.endpoint_id}, which {config.network.vpc_id} already has", err=True)


def refuse_lost_images(config_file: Path, config: ClusterConfig) -> None:
    """Refuses a pinned image that was deregistered: every launch from it would fail."""
    from gpucluster.baking import pins
    from gpucluster.baking.recipe import Extras, recipe
    from gpucluster.cluster import aws

    entries = pins.read(config_file)
    if not any("gpucluster-image:" in name for name in entries):
        return
    cloud = aws.connect(config, config_file)
    account = cloud.client("sts").get_caller_identity()["Account"]
    pinned = pins.current(entries, account=account, region=config.region, recipe=recipe(Extras.of(config)))
    filters = [{"Name": "image-id", "Values": pinned}, {"Name": "state", "Values": ["available"]}]
    there = cloud.client("ec2").describe_images(Filters=filters)["Images"] if pinned else []
    lost = sorted(set(pinned) - {image["ImageId"] for image in there})
    if lost:
        raise UsageError(
            f"{', '.join(lost)}, pinned in cdk.context.json: no such image in {config.region}; nothing was changed",
            "build it again with `gpucluster image build`, or delete the entry: nodes then boot the base image",
        )


def pin_larger_disks(config_file: Path, config: ClusterConfig) -> None:
    """Synthesis cannot ask for the size of an image."""
    from gpucluster.baking import roots
    from gpucluster.cluster import aws

    if roots.pin(config_file, config, aws.connect(config, config_file).client("ec2")):
        click.echo("note: cdk.context.json has the size of an image's disk, which root disks take over", err=True)


def deployment_of(config_file: Path, config: ClusterConfig, *, tell: Callable[[str], None]) -> Deployment:
    from gpucluster.cluster import aws
    from gpucluster.cluster.deployment import Clients

    cloud = aws.connect(config, config_file)
    return Deployment(
        name=config.name,
        region=config.region,
        config_file=config_file,
        state_folder=local_cloud.state_folder(config_file),
        aws=cloud.environment,
        clients=Clients(**{service.name: cloud.client(service.name) for service in fields(Clients)}),
        tell=tell,
    )


def start_local_cloud(
    config_file: Path,
    config: ClusterConfig,
    *,
    port: int | None,
    image: Path | None,
    wheels: Path,
    tell: Callable[[str], None],
) -> None:
    """Starts a local cloud, or uses one that already answers at that port. Writes the record."""
    if find_spec("moto") is None or find_spec("localcloud") is None:
        raise UsageError("the local cloud is not installed", shipped.how_to_install_local_cloud())
    known = local_cloud.read(config_file, config.name)
    endpoint_url = f"http://127.0.0.1:{port or local_cloud.DEFAULT_PORT}"
    if known and port is None:
        endpoint_url = known.endpoint_url
    name = local_cloud.running_at(endpoint_url)
    if name:
        tell(f"local cloud {name!r} answers at {endpoint_url}")
        started = bool(known and known.started and known.endpoint_url == endpoint_url)
    else:
        name, started = config.name.lower(), True
        tell(f"starting local cloud {name!r} at {endpoint_url}")
        folder = wheels.expanduser()
        number = int(endpoint_url.rpartition(":")[2])
        found = folder if folder.is_dir() else None
        local_cloud.call(local_cloud.up_argv(name=name, port=number, image=image, wheels=found), tell=tell)
    secret = local_cloud.secret_access_key(name)
    local_cloud.write(config_file, config.name, local_cloud.Record(endpoint_url, name, started, secret))


def interrupted(deployment: Deployment) -> int:
    status = deployment.status()
    if status is None:
        click.echo("\ninterrupted: the stack was not created", err=True)
    elif not status.endswith("_IN_PROGRESS"):
        click.echo(f"\ninterrupted: {deployment.name} was not changed", err=True)
    else:
        click.echo(f"\ninterrupted: {deployment.name} is {status}, and CloudFormation continues", err=True)
    click.echo(
        "hint: `gpucluster up` with the same options continues from here; `gpucluster down` deletes what exists",
        err=True,
    )
    return INTERRUPTED_EXIT_CODE


def lost_volume(config_file: Path, config: ClusterConfig) -> str:
    """What `status` says about a data volume that somebody detached: CloudFormation does not see it. Empty also if
    nobody knows: the cluster is deployed."""
    from gpucluster.cluster import aws, data_volume

    cloud = aws.connect(config, config_file)
    try:
        head = cloud.head()
        return data_volume.words(cloud, head) if head.state == "running" else ""
    except CloudError:
        return ""


def _next_commands(config: ClusterConfig, changed: bool) -> str:
    state = "is up" if changed else "is up to date: no changes"
    return (
        f"{config.name} {state}. Next:\n"
        "  gpucluster status\n"
        "  gpucluster submit --nodes 2 -- python train.py\n"
        "  gpucluster ssh\n"
        "  gpucluster down"
    )
