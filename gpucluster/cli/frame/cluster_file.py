"""Which cluster a verb is for: -c or --context before or behind the verb, GPUCLUSTER_CONFIG, GPUCLUSTER_CONTEXT, or the
nearest cluster.yaml."""

from __future__ import annotations

from pathlib import Path

import click

from gpucluster.errors import UsageError

WITH_CONTEXT = frozenset(
    [
        "submit",
        "jobs",
        "logs",
        "why",
        "cancel",
        "results",
        "resubmit",
        "status",
        "top",
        "tensorboard",
        "ui",
        "ssh",
        "shell",
        "cp",
        "sync",
        "fetch",
        "forward",
    ]
)
"""The verbs that work with a Slurm cluster that GpuCluster did not build."""
WITHOUT_CLUSTER = frozenset(["context", "init", "list", "types"])
"""The verbs that work with no particular cluster."""


def accept(command: click.Command, verb: str) -> click.Command:
    """Gives a verb, and each part of it, the options that stand before the verb as well."""
    if isinstance(command, click.Group):
        for part in command.commands.values():
            accept(part, verb)
    elif not any("-c" in parameter.opts for parameter in command.params):
        command.params += [
            click.Option(
                ["-c", "--config"],
                metavar="FILE",
                expose_value=False,
                callback=_choose,
                help="Cluster file.  [env: GPUCLUSTER_CONFIG; default: the nearest cluster.yaml]",
            ),
            click.Option(
                ["--context"],
                metavar="NAME",
                expose_value=False,
                callback=_context,
                hidden=verb not in WITH_CONTEXT,
                help="Slurm cluster to use instead of a cluster file, see `gpucluster context`.",
            ),
        ]
    return command


def _refuse_context(verb: str) -> None:
    """Raises UsageError for a verb that would silently use a cluster file instead, or none."""
    if verb in WITHOUT_CLUSTER:
        raise UsageError(f"--context: `gpucluster {verb}` works without a cluster", "leave --context out")
    if verb not in WITH_CONTEXT:
        others = ", ".join(sorted(WITH_CONTEXT))
        raise UsageError(
            f"--context: `gpucluster {verb}` works only with a cluster that GpuCluster built",
            f"-c FILE chooses a cluster file; with a context you can use {others}",
        )


def _choose(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj.choose(Path(value))


def _context(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Also called if the option stands only before the verb, and not if --help is asked for."""
    name = ctx.obj.context_name if value is None else value
    if name:
        _refuse_context(_verb(ctx))
    ctx.obj.context_name = name


def _verb(ctx: click.Context) -> str:
    """The verb's name also for a part of a verb, such as `env list`."""
    while ctx.parent and ctx.parent.parent:
        ctx = ctx.parent
    return str(ctx.info_name)
