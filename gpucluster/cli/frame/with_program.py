"""Verbs that take a program after their options: `submit [OPTIONS] [JOB.YAML] [OPTIONS] [--] PROGRAM ARGUMENTS`.

As with srun, sbatch and torchrun, everything after the program's name belongs to the program. One of the verb's own
options there is refused without `--`: it is ambiguous, and a wrong guess costs nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpucluster.cli.frame.sections import InSections
from gpucluster.errors import UsageError
from gpucluster.meant import did_you_mean

YAML = (".yaml", ".yml")
_FIXED = ("requeue",)
"""Keys that a verb without their option sets itself: gpucluster/measure/settings.py."""


class WithProgram(InSections):
    """Its one argument, `words`, is the job's file, if there is one, and the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # shells request completions of an incomplete line
            return super().parse_args(ctx, args)
        options, words, separated = self._leading_options(ctx, args)
        file: list[str] = []
        if not separated and words and words[0].endswith(YAML):
            more, rest, separated = self._leading_options(ctx, words[1:])
            file, options, words = words[:1], [*options, *more], rest
            if not separated and words and words[0].endswith(YAML):
                raise UsageError(
                    f"{words[0]} is a second file, after {file[0]}",
                    f"{ctx.info_name} one after the other, or write a pipeline.yaml with several jobs",
                )
        if not separated:
            self._refuse_own_options(ctx, words)
        return super().parse_args(ctx, [*options, "--", *file, *words])

    def _leading_options(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str], bool]:
        """The options before the first word, that word and all after it, and whether a `--` is between them."""
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        try:
            found, _, _ = parser.parse_args(list(args))
        except click.NoSuchOption as error:
            raise unknown_option(error.option_name, [*parser._long_opt], ctx) from None
        words = list(found["words"]) if isinstance(found["words"], tuple) else []
        end = len(args) - len(words)
        separated = end > 0 and args[end - 1] == "--"
        return args[: end - 1 if separated else end], words, separated

    def _refuse_own_options(self, ctx: click.Context, words: list[str]) -> None:
        own = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        arguments = words[1 : words.index("--") if "--" in words else None]
        own_too = next((word.partition("=")[0] for word in arguments if word.partition("=")[0] in own), None)
        if own_too:
            raise UsageError(
                f"{own_too} comes after {words[0]}: is it an option of {ctx.info_name} or of the program?",
                f"for {ctx.info_name}, write {own_too} before {words[0]}; for the program, write -- before {words[0]}",
            )


def split(words: tuple[str, ...]) -> tuple[Path | None, dict[str, Any]]:
    """Click has removed the `--`. A first word that names a YAML file is the job's file, the rest the command."""
    file = Path(words[0]) if words and words[0].endswith(YAML) else None
    rest = words[1:] if file else words
    return file, {"command": rest} if rest else {}


def unknown_option(got: str, known: list[str], ctx: click.Context) -> UsageError:
    call = f"{ctx.info_name} [OPTIONS] -- python train.py"
    others = [each for each in known if each != "--help"]
    otherwise = _of_job_yaml(got, known) or f"options of the program come after it: {call} {got} …"
    hint = _of_sbatch(got, known, call) or did_you_mean(got, others, otherwise)
    return UsageError(f"no such option: {got}", hint)


def _of_job_yaml(got: str, known: list[str]) -> str | None:
    """The key of job.yaml for an option of `submit` that this verb lacks."""
    from gpucluster.job.load import flag_of
    from gpucluster.job.spec import JobSpec

    key = next((key for key in JobSpec.model_fields if flag_of(key) == got and key not in _FIXED), None)
    return f"write {key} in job.yaml" if key and got not in known else None


def _of_sbatch(got: str, known: list[str], call: str) -> str | None:
    """What to write instead of an option that only sbatch has. None for any other option."""
    from gpucluster.job import sbatch_options
    from gpucluster.job.load import flag_of

    name = got.removeprefix("--").replace("_", "-")
    if name in sbatch_options.PASSED_ON:
        if "--sbatch-args" in known:
            return f"pass it to sbatch: --sbatch-args=--{name}=…"
        return f"{sbatch_options.hint(name)} in job.yaml"
    key = sbatch_options.owned_by(name)
    if key is None:
        return _why(sbatch_options.WHY.get(name, ""), known)
    if key == "command":
        return f"write it into the command, after the options: {call}"
    flag = "--no-exclusive" if name == "oversubscribe" else flag_of(key)
    if flag in known:
        return f"use {flag} instead"
    return None if key in _FIXED else f"write {key} in job.yaml"


def _why(text: str, known: list[str]) -> str | None:
    """The reason why no verb has the option. None if it names an option that this verb lacks."""
    named = [word for word in text.split() if word.startswith("--")]
    return text if text and all(word in known for word in named) else None
