"""`gpucluster stop`: stops the head node; the queue, accounting records and data stay."""

from __future__ import annotations

import json

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import UsageError


@click.command()
@click.pass_obj
def command(context: CliContext) -> int:
    """Stop the head node, for example overnight. `gpucluster start` starts it.

    Pending jobs, accounting records and /home stay. It refuses while compute nodes run, because only the head node
    terminates them when they are idle. You still pay for disks, file systems, the NAT gateway and endpoints: only
    `gpucluster down` deletes those. The last line on stdout is JSON.
    """
    from gpucluster.cluster import aws, head_power

    config = context.load()
    cloud = aws.connect(config, context.config_path)
    nodes = head_power.running_nodes(cloud)
    if nodes:
        raise UsageError(
            f"compute nodes of {config.name} still run: {', '.join(nodes)}; the head node was not stopped",
            "wait for their jobs, or cancel them: Slurm terminates idle nodes after idle_minutes. It never terminates "
            "nodes of min_nodes: set min_nodes: 0 and run `gpucluster up` first",
        )
    click.echo(f"stopping the head node of {config.name} …", err=True)
    ran = head_power.stop(cloud)
    click.echo("the head node is stopped" if ran else "the head node was already stopped", err=True)
    click.echo(json.dumps({"name": config.name, "head": "stopped", "changed": ran}))
    return 0
