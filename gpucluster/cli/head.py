"""`gpucluster head replace`: replaces the head node and keeps its volume."""

from __future__ import annotations

import json
import os
import time

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.up import ask_account, deployment_of, refuse_another, stopwatch
from gpucluster.config import ClusterConfig
from gpucluster.errors import NotDeployedError, UsageError


@click.group()
def command() -> None:
    """Replace the head node, which runs Slurm's controller and holds /home.

    If the head node was terminated, `gpucluster up` creates another one: you need no `head replace`.
    """


@command.command(short_help="Replace the head node with a new instance and the same volume.")
@click.option(
    "-y", "--yes", is_flag=True, help="Replace it, even if the files of BeeGFS in the nodes' memory are lost."
)
@click.pass_obj
def replace(context: CliContext, yes: bool) -> int:
    """Replace the head node with a new instance, which takes over the volume with /home and Slurm's data.

    Compute nodes stay, and running jobs continue. For some minutes Slurm does not answer, and programs that use
    /home wait. The replacement is counted in cdk.context.json: commit that file.

    If the cluster has BeeGFS in its nodes' memory (scope: cluster), its files are lost, the compute nodes are
    terminated, and their jobs run again. It then refuses to continue, unless you give --yes.

    The last line on stdout is a JSON object: name, region, before, instance_id, seconds.
    """
    from gpucluster.cli import changes
    from gpucluster.cluster import cdk
    from gpucluster.cluster.aws import aws_errors

    config, tell, began = context.load(), stopwatch(), time.monotonic()
    cdk.fetch(tell)
    deployment = deployment_of(context.config_path, config, tell=tell)
    with aws_errors(), deployment.turn("head replace"):
        refuse_another(context.config_path, config)
        deployment.let_finish()
        comparison = changes.compare(deployment, config, tell)
        if comparison.old is None:
            raise NotDeployedError(f"the cluster {config.name} in {config.region} does not exist", "`gpucluster up`")
        if comparison.changes:
            raise UsageError(
                "the cluster file has changes that are not deployed; nothing was changed",
                "`gpucluster plan` lists them; run `gpucluster up` first",
            )
        refuse_loss(comparison.old, yes=yes)
        ask_account(context.config_path, config)
        before = deployment.outputs().get("HeadInstanceId")
        tell(f"replacing the head node {before}: {what_happens(comparison.old)}")
        deployment.up(os.environ, since=comparison.since, replace_head=True)
        now = deployment.outputs()["HeadInstanceId"]
    result = {"name": config.name, "region": config.region, "before": before, "instance_id": now}
    click.echo(json.dumps({**result, "seconds": round(time.monotonic() - began, 1)}))
    return 0


def refuse_loss(config: ClusterConfig, *, yes: bool) -> None:
    """Raises UsageError if files would be lost."""
    lost = _lost(config)
    if lost and not yes:
        raise UsageError(
            f"{lost} is BeeGFS in the nodes' memory: its files would be lost with the head node, and the compute nodes "
            "terminated; nothing was changed",
            "copy what you need to another mount, then give --yes",
        )


def what_happens(config: ClusterConfig) -> str:
    lost = _lost(config)
    if lost:
        return f"the files of {lost} are lost, the compute nodes are terminated, and their jobs run again"
    return "another one takes over its volume; compute nodes and running jobs continue"


def _lost(config: ClusterConfig) -> str:
    """The mounts whose files are lost with the head node: BeeGFS, of which a cluster has at most one."""
    return " ".join(each.mount for each in config.storage if each.lost_with_head)
