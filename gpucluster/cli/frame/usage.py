"""Messages about a command line that click cannot read, in the form of all other messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click
from click import exceptions

from gpucluster.meant import did_you_mean

_GOT = re.compile(r"'?(?P<got>.*?)'? is not (a valid (integer|int)|one of|in the range)")


def message(error: click.ClickException) -> str:
    match error:
        case click.MissingParameter(param=click.Option() as option):
            return f"{flag(option)} is missing"
        case click.MissingParameter(param=click.Parameter() as argument):
            return f"{flag(argument)} is missing"
        case click.NoSuchOption():
            hint = did_you_mean(error.option_name, _options(error.ctx))
            return f"no such option: {error.option_name}" + (f", {hint}" if hint else "")
        case exceptions.NoSuchCommand(ctx=click.Context(command=click.Group() as group) as context):
            parts = ", ".join(sorted(group.commands))
            return f"no such command: {error.command_name!r}; `{context.command_path}` has {parts}"
        case click.BadOptionUsage() if "requires an argument" in error.message:
            return f"{error.option_name} needs a value"
        case click.BadParameter(param=click.Parameter() as parameter):
            return f"{flag(parameter)}: {_value(parameter.type, error.message)}"
    return _others(error.format_message())


def after(error: click.ClickException) -> list[str]:
    """The lines after the message: the usage, if arguments are missing or superfluous, and a hint to --help."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return []
    if file := re.search(r"extra argument.*?\((\S+\.ya?ml)", error.format_message()):
        return [f"hint: {context.command_path} -c {file[1]}"]
    counts = isinstance(error, click.MissingParameter) or re.match("Missing command|Got unexpected", error.message)
    usage = " ".join(context.get_usage().removeprefix("Usage:").split())
    return [*([f"usage: {usage}"] if counts else []), f"hint: {context.command_path} --help"]


def flag(parameter: click.Parameter) -> str:
    longs = (each for each in parameter.opts if each.startswith("--"))
    return next(longs, re.sub(r"^\[([^]]*)\]$", r"\1", parameter.human_readable_name))


def _others(text: str) -> str:
    """Click's remaining messages that a user of ours can meet."""
    if text.startswith("Missing command"):
        return "VERB is missing"
    if extra := re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", text):
        return f"unexpected argument: {extra[1]}"
    return text


def _value(kind: click.ParamType[Any], text: str) -> str:
    found = _GOT.match(text)
    if found is None:
        return text
    got = found["got"]
    match kind:
        case click.IntRange() if not text.startswith("'"):
            return f"must be {_range(kind)}, got {got}"
        case click.Choice():
            return f"must be {_either([str(each) for each in kind.choices])}, got {got!r}"
    return f"must be a whole number, got {got!r}"


def _range(kind: click.IntRange) -> str:
    return f"at least {kind.min}" if kind.max is None else f"from {kind.min} to {kind.max}"


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _options(context: click.Context | None) -> list[str]:
    return [name for each in context.command.params for name in each.opts if name.startswith("--")] if context else []
