"""`gpucluster list`: lists every cluster of the account in a region."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import UsageError


@click.command()
@click.option(
    "--region",
    metavar="REGION",
    help="Region to look in.  [default: that of the cluster file, or of your AWS profile]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(context: CliContext, region: str | None, as_json: bool) -> int:
    """List all clusters of your AWS account in one region, also those whose cluster file you do not have."""
    from gpucluster.cluster import aws, existing

    with aws.aws_errors():
        session, endpoint_url = _session(context, region)
        settings = {"endpoint_url": endpoint_url, "config": aws.patient()}
        cloudformation, ec2 = (session.client(each, **settings) for each in ("cloudformation", "ec2"))
        found = existing.clusters(cloudformation, ec2, session.region_name)
    if as_json:
        click.echo(json.dumps({"region": session.region_name, "clusters": [asdict(each) for each in found]}))
        return 0
    if not found:
        click.echo(f"no clusters in {session.region_name}", err=True)
        return 0
    rows = [["name", "stack", "head", "nodes", "created"]]
    rows += [[each.name, each.stack, each.head or "none", f"{each.nodes}", each.created] for each in found]
    for line in columns(rows):
        click.echo(line)
    return 0


def _session(context: CliContext, region: str | None) -> tuple[Any, str | None]:
    """boto3's session and an endpoint, from the cluster file if there is one. Raises UsageError."""
    import boto3

    from gpucluster.cluster import aws

    if context.config_path.exists():
        cloud = aws.connect(context.load(), context.config_path)
        if region in (None, cloud.config.region):
            return cloud.session, cloud.endpoint_url
    session = boto3.Session(region_name=region)
    if session.region_name is None:
        raise UsageError(
            "no region: there is no cluster.yaml here, and your AWS profile names none", "give --region us-east-1"
        )
    return session, None
