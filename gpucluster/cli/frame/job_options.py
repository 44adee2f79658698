"""The options that `submit` and `bench` have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args

import click


def name_values(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    wrong = next((value for value in values if "=" not in value), None)
    if wrong is not None:
        raise click.BadParameter(f"must be {parameter.metavar}, got {wrong!r}", ctx, parameter)
    return dict(value.split("=", 1) for value in values) or None


NULL = "null"
"""As in job.yaml: the key is not set, whatever the file says."""


class _NumberOrNull(click.ParamType[Any, Any]):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == NULL or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"must be a whole number or null, got {value!r}", param, ctx)


NUMBER_OR_NULL = _NumberOrNull()


def given_keys(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The job's keys that options set; None for `null` where the key allows it."""
    given = {key: value for key, value in flags.items() if value not in (None, ())}
    if NULL not in given.values():
        return given
    from gpucluster.job.spec import JobSpec

    nullable = {key for key, field in JobSpec.model_fields.items() if NoneType in get_args(field.annotation)}
    return {key: None if value == NULL and key in nullable else value for key, value in given.items()}


OPTIONS = (
    click.option("-p", "--partition", metavar="NAME", help="Partition to run on.  [default: the first]"),
    click.option(
        "--gpus-per-node",
        "--gpus",
        "gpus_per_node",
        type=NUMBER_OR_NULL,
        metavar="N",
        help="GPUs to use on each node.  [default: all]",
    ),
    click.option(
        "--ntasks-per-node",
        "--nproc-per-node",
        "ntasks_per_node",
        type=NUMBER_OR_NULL,
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
