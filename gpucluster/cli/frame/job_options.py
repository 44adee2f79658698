"""The options that `submit` and `bench` have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def name_values(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    wrong = next((value for value in values if "=" not in value), None)
    if wrong is not None:
        raise click.BadParameter(f"must be {parameter.metavar}, got {wrong!r}", ctx, parameter)
    return dict(value.split("=", 1) for value in values) or None


OPTIONS = (
    click.option("-p", "--partition", help="Partition to run on. Default: the first."),
    click.option("--gpus-per-node", "--gpus", "gpus_per_node", type=int, help="GPUs on each node. Default: all."),
    click.option(
        "--ntasks-per-node",
        "--nproc-per-node",
        "ntasks_per_node",
        type=int,
        help="Ranks on each node. Default: one per GPU.",
    ),
    click.option("-t", "--time", help="Time limit, such as 2:00:00, 1-12:00:00 or 90m."),
    click.option(
        "--env", multiple=True, metavar="NAME=VALUE", callback=name_values, help="Variable for the ranks; repeatable."
    ),
    click.option(
        "--secrets",
        multiple=True,
        metavar="NAME",
        help="Variable of your shell to pass to the ranks, and to no script or log; repeatable.",
    ),
    click.option("--workdir", help="Directory to upload. Default: the current one, or that of job.yaml."),
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command
