"""`gpucluster validate [FILE]`: every problem of a cluster file at once. Asks nobody, so it works anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpucluster.cli.context import CliContext
from gpucluster.config import ClusterConfig, load
from gpucluster.errors import ConfigError, Notice


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout, problems included.")
@click.pass_obj
def command(context: CliContext, file: Path | None, as_json: bool) -> int:
    """Check FILE (or the file that -c names): every problem at once, with line and column. Needs no network.

    Warnings do not make it fail: among them are keys whose building comes later, which `up` refuses.
    """
    path = file or context.config_path
    try:
        config = load(path)
    except ConfigError as error:
        if not as_json:
            raise
        click.echo(_json(path, error.problems))
        return error.exit_code
    warnings = [*config.warnings(), *config.not_built()]
    if as_json:
        click.echo(_json(path, warnings))
        return 0
    for warning in warnings:
        click.echo(warning.render(), err=True)
    click.echo(f"{path}: ok: {summary(config)}{_count(warnings)}")
    return 0


def summary(config: ClusterConfig) -> str:
    partitions = ", ".join(
        f"{partition.name} ({partition.min_nodes} to {partition.max_nodes} x {partition.instance_types[0]})"
        for partition in config.partitions
    )
    return f"{config.name} in {config.region}, {partitions}"


def _count(warnings: Sequence[Notice]) -> str:
    return f"; {len(warnings)} warning{'s' if len(warnings) != 1 else ''}" if warnings else ""


def _json(path: Path, notices: Sequence[Notice]) -> str:
    errors = [_fields(notice) for notice in notices if notice.level == "error"]
    warnings = [_fields(notice) for notice in notices if notice.level == "warning"]
    return json.dumps({"file": str(path), "valid": not errors, "errors": errors, "warnings": warnings})


def _fields(notice: Notice) -> dict[str, Any]:
    return {name: getattr(notice, name) for name in ("line", "column", "key", "message", "hint")}
