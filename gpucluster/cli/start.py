"""`gpucluster start`: starts the head node after `gpucluster stop`."""

from __future__ import annotations

import json

import click

from gpucluster.cli.frame.context import CliContext


@click.command()
@click.pass_obj
def command(context: CliContext) -> int:
    """Start the head node after `gpucluster stop`. Pending jobs start as soon as Slurm runs.

    The last line on stdout is JSON.
    """
    from gpucluster.cluster import aws, head_power

    config = context.load()
    click.echo(f"starting the head node of {config.name} …", err=True)
    stopped = head_power.start(aws.connect(config, context.config_path))
    click.echo("the head node is running" if stopped else "the head node was already running", err=True)
    click.echo(json.dumps({"name": config.name, "head": "running", "changed": stopped}))
    return 0
