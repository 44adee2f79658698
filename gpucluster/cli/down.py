"""`gpucluster down`: deletes the cluster and everything in it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.up import deployment_of, refuse_another, stopwatch
from gpucluster.cluster import local_cloud, register, stack
from gpucluster.cluster.deletion import unexported, vpc_contents
from gpucluster.cluster.deletion.summary import network_stays, what_goes_and_stays
from gpucluster.cluster.deployment import Deployment
from gpucluster.config import ClusterConfig
from gpucluster.errors import INTERRUPTED_EXIT_CODE, CloudError, UsageError
from gpucluster.head import job_lustre
from gpucluster.updates import UnknownRecord


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation. Refused if the cluster is protected.")
@click.option("--export", is_flag=True, help="First export files that exist only on Lustre to S3, before the question.")
@click.option("--discard", is_flag=True, help="Also delete files that exist only on Lustre and not in S3.")
@click.pass_obj
def command(context: CliContext, yes: bool, export: bool, discard: bool) -> int:
    """Delete the cluster: its nodes, its network, and its volumes and file systems as `on_delete` says.

    It lists what is deleted and what remains, then asks. It refuses if files exist only on Lustre, unless you give
    --export or --discard. With head_node.termination_protection, it asks you to type the cluster's name.

    The last line on stdout is a JSON object: name, region, deleted.
    """
    from gpucluster.cluster.aws import aws_errors

    if export and discard:
        raise UsageError("--export and --discard contradict each other", "give only one of them")
    config = context.load()
    record = local_cloud.read(context.config_path, config.name)
    if record is None and _went_with_the_local_cloud(context.config_path, config):
        click.echo(f"nothing to delete: {config.name} ran on this machine, and was deleted before", err=True)
        return _gone(config)
    if record and not local_cloud.running_at(record.endpoint_url):
        click.echo(f"the local cloud at {record.endpoint_url} has stopped, and the cluster ended with it", err=True)
        ended = {"name": config.name, "region": config.region, "account": local_cloud.ACCOUNT}
        register.remove(context.config_path, **ended)
        exit_code = 0
    else:
        deployment = deployment_of(context.config_path, config, tell=stopwatch())
        with aws_errors(), deployment.turn("down"):
            exit_code = _take_down(
                deployment,
                config,
                yes=yes,
                keep_data=_keeper(context, export, discard),
                end_lustre=_ender(context, deployment, discard),
                others=refuse_another(context.config_path, config),
            )
            if exit_code == 0:
                deployment.unregister()
    if record and exit_code == 0:
        _end_local_cloud(context.config_path, config, record)
    return _gone(config) if exit_code == 0 else exit_code


def _gone(config: ClusterConfig) -> int:
    click.echo(json.dumps({"name": config.name, "region": config.region, "deleted": True}))
    return 0


def _went_with_the_local_cloud(config_file: Path, config: ClusterConfig) -> bool:
    """A user with AWS credentials may have deployed the cluster on AWS too, so AWS is called then."""
    from gpucluster.cluster import aws

    return local_cloud.ended(config_file, config.name) and not aws.connect(config).has_credentials()


def _keeper(context: CliContext, export: bool, discard: bool) -> Callable[[ClusterConfig], None]:
    """A check that raises UsageError if the deployed cluster has files that would be lost without permission."""

    def keep(deployed: ClusterConfig) -> None:
        if discard or not unexported.may_lose(deployed):
            return
        click.echo("looking for files that exist only on Lustre …", err=True)
        try:
            with head(context, deployed) as remote:
                found = list(unexported.deleted(unexported.find(remote, export=export), deployed))
        except CloudError as error:
            raise UsageError(f"cannot find out which files exist only on Lustre: {error}", unexported.HINT) from None
        if found:
            raise unexported.refusal(found, deployed)

    return keep


def _ender(context: CliContext, deployment: Deployment, discard: bool) -> Callable[[ClusterConfig], None]:
    """Deletes the file systems that the head node created for jobs, and raises UsageError if one remains."""

    def end(deployed: ClusterConfig) -> None:
        if not deployed.lustre_with_jobs:
            return
        click.echo("deleting the file systems with lifetime: jobs, which may take minutes …", err=True)
        try:
            with head(context, deployed) as remote:
                for line in job_lustre.end(remote, discard=discard):
                    click.echo(line, err=True)
        except CloudError as error:
            there = deployment.file_systems() & job_lustre.names(deployed)
            if there:
                raise job_lustre.refusal(there, error) from None
            click.echo(f"the head node could not list its file systems of jobs, but FSx has none: {error}", err=True)

    return end


def _take_down(
    deployment: Deployment,
    config: ClusterConfig,
    *,
    yes: bool,
    keep_data: Callable[[ClusterConfig], None],
    end_lustre: Callable[[ClusterConfig], None],
    others: Sequence[register.Entry] = (),
) -> int:
    """`others`: the clusters that the file created under another name."""
    status = deployment.status()
    if status is None and others:
        raise UsageError(
            f"there is no stack {config.name} in {config.region}, and nothing was deleted: `gpucluster up` created "
            f"{others[-1]} from this file",
            f"set name: {others[-1].name} and region: {others[-1].region} to delete that cluster",
        )
    if status is None:
        click.echo(f"nothing to delete: there is no stack {config.name} in {config.region}", err=True)
        return 0
    if stack.has_cluster(status):
        keep_data(_as_deployed(deployment, config))
    _refuse_others(deployment, config)
    _confirm(deployment, config, yes=yes)
    protected = deployment.protected()
    if protected:
        _confirm_unprotected(config, yes=yes)
    if stack.has_cluster(status):
        end_lustre(_as_deployed(deployment, config))
    if protected:
        deployment.lift_protection()
    try:
        deployment.down(os.environ)
    except KeyboardInterrupt:
        return _interrupted(deployment)
    click.echo(f"{config.name} is deleted", err=True)
    return 0


def _refuse_others(deployment: Deployment, config: ClusterConfig) -> None:
    """Raises UsageError if somebody else uses the cluster's network."""
    stays = network_stays(_as_deployed(deployment, config))
    if found := deployment.in_the_way(network_stays=stays):
        raise vpc_contents.refusal(found, config.name)


def _confirm(deployment: Deployment, config: ClusterConfig, *, yes: bool) -> None:
    record = local_cloud.read(deployment.config_file, config.name)
    volumes = stack.physical_ids(deployment.clients.cloudformation, config.name, "AWS::EC2::Volume")
    for line in what_goes_and_stays(
        _as_deployed(deployment, config),
        compute_nodes=len(deployment.instances("compute")),
        volumes=" ".join(volumes),
        cloud_ends=record is not None and record.started,
    ):
        click.echo(line, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("down asks before it deletes, but stdin is no terminal", "gpucluster down --yes")
    if not click.confirm("Delete all this?", err=True):
        raise UsageError("nothing was deleted", "answer y to delete the cluster")


def _confirm_unprotected(config: ClusterConfig, *, yes: bool) -> None:
    """Asks for the name even with --yes: the protection is against habits and scripts."""
    hint = "run `gpucluster down` in a terminal, or set head_node.termination_protection: false and run `gpucluster up`"
    if yes or not sys.stdin.isatty():
        raise UsageError(f"{config.name} is protected against deletion", hint)
    typed = click.prompt(f"{config.name} is protected against deletion. To delete it, type its name", err=True)
    if typed.strip() != config.name:
        raise UsageError(f"{typed!r} is not {config.name!r}: nothing was deleted", hint)


def _as_deployed(deployment: Deployment, config: ClusterConfig) -> ClusterConfig:
    """The deployed file decides what is kept, since the current file may have changed."""
    with suppress(UnknownRecord):
        deployed = deployment.deployed()
        return deployed.config if deployed else config
    return config


def _interrupted(deployment: Deployment) -> int:
    status = deployment.status() or "deleted"
    click.echo(f"\ninterrupted: {deployment.name} is {status}, and CloudFormation continues", err=True)
    click.echo("hint: `gpucluster down` continues from here", err=True)
    return INTERRUPTED_EXIT_CODE


def _end_local_cloud(config_file: Path, config: ClusterConfig, record: local_cloud.Record) -> None:
    """Stops the local cloud that `up --local` started, with its baked images. One that already ran before continues."""
    if record.started:
        _forget_images(config_file, config)
        local_cloud.call(local_cloud.down_argv(record.localcloud_name), tell=lambda line: click.echo(line, err=True))
    local_cloud.forget(config_file, config.name)


def _forget_images(config_file: Path, config: ClusterConfig) -> None:
    """If the cloud no longer answers, the entries stay, and the next `up` reports them."""
    from gpucluster.baking import pins
    from gpucluster.cluster import aws
    from gpucluster.errors import AwsError

    with suppress(AwsError), aws.aws_errors():
        account = aws.connect(config, config_file).client("sts").get_caller_identity()["Account"]
        for image_id in pins.forget(config_file, account=account, region=config.region):
            click.echo(f"removed {image_id} from cdk.context.json: the image exists only in the local cloud", err=True)
