"""`gpucluster validate [FILE]`: lists every problem of a cluster file. Works offline."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.config import ClusterConfig, load, loads
from gpucluster.config.load import not_utf8
from gpucluster.errors import ConfigError, Notice


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout, which contains the problems.")
@click.pass_obj
def command(context: CliContext, file: Path | None, as_json: bool) -> int:
    """Check a cluster file, and list every problem with its line and column. Needs no network and no credentials.

    FILE is by default that of -c, or the nearest cluster.yaml; - is stdin. The exit code is 2 if there is an error.
    Warnings do not change it. Each finding ends with the name of its validator in brackets: to hide its findings, add
    that name to `silence` in the cluster file. docs/validators.md lists all validators.
    """
    path = file or context.config_path
    try:
        config = loads(_stdin(), "<stdin>") if str(path) == "-" else load(path)
    except ConfigError as error:
        if not as_json:
            raise
        click.echo(_json(path, error.problems))
        return error.exit_code
    warnings = config.warnings()
    if as_json:
        click.echo(_json(path, warnings, config.silenced()))
        return 0
    for warning in warnings:
        click.echo(warning.render(), err=True)
    click.echo(f"{path}: ok: {summary(config)}{_count(warnings)}{_silenced(config)}")
    return 0


def _stdin() -> str:
    """Raises ConfigError. The file is UTF-8, whatever the terminal's locale is."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ConfigError([not_utf8("<stdin>", error)]) from None


def summary(config: ClusterConfig) -> str:
    partitions = [
        f"{partition.name} ({partition.min_nodes} to {partition.max_nodes} x {partition.instance_types[0]})"
        for partition in config.every_partition
    ]
    return f"{config.name} in {config.region}, {', '.join(partitions)}"


def _count(warnings: Sequence[Notice]) -> str:
    return f"; {len(warnings)} warning{'s' if len(warnings) != 1 else ''}" if warnings else ""


def _silenced(config: ClusterConfig) -> str:
    count = len(config.silenced())
    return f"; {count} silenced" if count else ""


def _json(path: Path, notices: Sequence[Notice], silenced: Sequence[Notice] = ()) -> str:
    kinds = {
        "errors": [_fields(notice) for notice in notices if notice.level == "error"],
        "warnings": [_fields(notice) for notice in notices if notice.level == "warning"],
        "silenced": [_fields(notice) for notice in silenced],
    }
    return json.dumps({"file": str(path), "valid": not kinds["errors"], **kinds})


def _fields(notice: Notice) -> dict[str, Any]:
    """`validator` is null if the file is malformed: an unknown or missing key, a value of the wrong type."""
    fields = {name: getattr(notice, name) for name in ("line", "column", "key", "message", "hint")}
    return {**fields, "validator": notice.validator or None}
