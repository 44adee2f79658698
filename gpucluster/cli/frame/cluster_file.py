"""Which cluster file a verb reads: -c before or behind the verb, GPUCLUSTER_CONFIG, or the nearest cluster.yaml."""

from __future__ import annotations

from pathlib import Path

import click

NAME = "cluster.yaml"


def nearest(folder: Path) -> Path:
    """cluster.yaml of this folder or of the nearest one above it, as git finds its repository."""
    above = next((parent / NAME for parent in folder.resolve().parents if (parent / NAME).is_file()), None)
    return Path(NAME) if above is None or (folder / NAME).exists() else above


def accept(command: click.Command) -> click.Command:
    """Gives a verb, and each part of it, the option -c that stands before the verb as well."""
    if isinstance(command, click.Group):
        for part in command.commands.values():
            accept(part)
    elif not any("-c" in parameter.opts for parameter in command.params):
        command.params.append(
            click.Option(["-c", "--config"], metavar="FILE", expose_value=False, callback=_choose, help="Cluster file.")
        )
    return command


def _choose(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.choose(Path(value))
