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
    click.option("-p", "--partition", help="Default: the cluster's first."),
    click.option("--gpus-per-node", "--gpus", "gpus_per_node", type=int, help="Default: all that a node has."),
    click.option(
        "--ntasks-per-node",
        "--nproc-per-node",
        "ntasks_per_node",
        type=int,
        help="Ranks on each node. Default: one per GPU.",
    ),
    click.option("-t", "--time", help="Time limit: 2:00:00, 1-12:00:00, 90m."),
    click.option(
        "--env", multiple=True, metavar="NAME=VALUE", callback=name_values, help="A variable for the ranks; repeatable."
    ),
    click.option(
        "--secrets",
        multiple=True,
        metavar="NAME",
        help="A variable of your environment whose value only the ranks get; repeatable.",
    ),
    click.option("--workdir", help="The directory that is copied to the cluster. Default: this one, or job.yaml's."),
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command
