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
    click.option("-p", "--partition", metavar="NAME", help="Partition to run on.  [default: the first]"),
    click.option(
        "--gpus-per-node",
        "--gpus",
        "gpus_per_node",
        type=int,
        metavar="N",
        help="GPUs to use on each node.  [default: all]",
    ),
    click.option(
        "--ntasks-per-node",
        "--nproc-per-node",
        "ntasks_per_node",
        type=int,
        metavar="N",
        help="Ranks (processes of the program) on each node.  [default: one per GPU]",
    ),
    click.option(
        "-t", "--time", metavar="TIME", help="Time limit, such as 90m, 2:00:00 or 1-12:00:00.  [default: none]"
    ),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME=VALUE",
        callback=name_values,
        help="Environment variable for the ranks; repeatable.",
    ),
    click.option(
        "--secrets",
        multiple=True,
        metavar="NAME",
        help="Environment variable of your shell for the ranks. No script and no log contains its value; repeatable.",
    ),
    click.option(
        "--workdir",
        metavar="FOLDER",
        help="Folder to upload, in which the program runs.  [default: that of job.yaml, or the current one]",
    ),
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command
