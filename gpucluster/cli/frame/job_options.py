"""The options of `submit` and `bench` that set a job's keys (gpucluster/job_keys.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import click

from gpucluster import job_keys


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


def _servers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, float] | None:
    """`2` is short for nodes=2. The job checks the keys and numbers."""
    if value is None:
        return None
    try:
        pairs = dict(pair.split("=", 1) for pair in (f"nodes={value}" if value.isdigit() else value).split(","))
        return {key: float(text) if "." in text or key == "ratio" else int(text) for key, text in pairs.items()}
    except ValueError:
        raise click.BadParameter(
            f"must be a number such as 2, or keys such as nodes=2,per_node=2, got {value!r}", ctx, parameter
        ) from None


def _channels(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, dict[str, str]] | None:
    """A source may contain commas and equals signs: only KEY= of a known key is a key. `null`: no channels."""
    if values == (NULL,):
        return {}
    found = {}
    for value in values:
        name, separator, rest = value.partition("=")
        source, *pairs = re.split(r",(?=[a-z]+=)", rest)
        if not (name and separator and source):
            raise click.BadParameter(f"must be NAME=SOURCE or NAME=SOURCE,shard=by-node, got {value!r}", ctx, parameter)
        key, given = ("task", source[5:]) if source.startswith("task:") else ("source", source)
        found[name] = {key: given} | dict(pair.split("=", 1) for pair in pairs)
    return found or None


def _files(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Relative to the current directory; those of job.yaml are relative to that file."""
    return tuple(str(Path(value).expanduser().absolute()) for value in values)


def _values(name: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Values for the shell's completion, loaded only then: `submit --help` needs no launcher."""

    def values(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from typing import get_args

        from gpucluster.config.models import Framework
        from gpucluster.launchers import LAUNCHERS

        known = LAUNCHERS if name == "launcher" else get_args(Framework)
        return [each for each in known if each.startswith(incomplete)]

    return values


_FORMS: dict[job_keys.Form, dict[str, Any]] = {
    "number": {"type": int},
    "number or null": {"type": NUMBER_OR_NULL},
    "list": {"multiple": True},
    "pairs": {"multiple": True, "callback": name_values},
    "switch": {"default": None},
    "flag": {"is_flag": True},
}
_OWN: dict[str, dict[str, Any]] = {
    "servers": {"callback": _servers},
    "channels": {"callback": _channels},
    "requirements": {"callback": _files},
    "launcher": {"shell_complete": _values("launcher")},
    "framework": {"shell_complete": _values("framework")},
}
"""What options of single keys have besides."""
SECTIONS = {title: [key.name for key in found if key.form != "command"] for title, found in job_keys.SECTIONS.items()}


def job_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of these keys; without names, of all."""
    asked = [key for key in job_keys.every() if key.form != "command" and (not names or key.name in names)]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for key in reversed(asked):
            command = _option(key)(command)
        return command

    return add


def _option(key: job_keys.Key) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    form = dict(_FORMS.get(key.form, {}))
    if key.values:
        form["type"] = click.Choice([*key.values, *([NULL] if key.form == "choice or null" else [])])
    flags = f"{key.option}/--no-{key.name}" if key.form == "switch" else key.option
    own = _OWN.get(key.name, {})
    return click.option(*flags.split(), key.name, metavar=key.metavar or None, help=key.help, **form | own)
