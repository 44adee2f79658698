"""Which cluster a verb is for: -c or --context before or behind the verb, GPUCLUSTER_CONFIG, GPUCLUSTER_CONTEXT, or the
nearest cluster.yaml."""

from __future__ import annotations

from pathlib import Path

import click


def accept(command: click.Command) -> click.Command:
    """Gives a verb, and each part of it, the options that stand before the verb as well."""
    if isinstance(command, click.Group):
        for part in command.commands.values():
            accept(part)
    elif not any("-c" in parameter.opts for parameter in command.params):
        command.params.append(
            click.Option(["-c", "--config"], metavar="FILE", expose_value=False, callback=_choose, help="Cluster file.")
        )
        command.params.append(
            click.Option(
                ["--context"], metavar="NAME", expose_value=False, callback=_context, help="Slurm cluster of others."
            )
        )
    return command


def _choose(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.choose(Path(value))


def _context(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.context_name = value
