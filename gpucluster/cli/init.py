"""`gpucluster init [FILE]`: writes a cluster file; with --template, also a job and its program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from gpucluster import shipped
from gpucluster.cli.frame.columns import columns
from gpucluster.cli.frame.context import CliContext
from gpucluster.cluster_file import NAME
from gpucluster.errors import UsageError
from gpucluster.job.templates import JOB, Template, templates

STARTER = """\
# What to build: `gpucluster validate` checks it, `gpucluster up` builds it on AWS, `gpucluster up --local` here.
name: GpuCluster                      # the CloudFormation stack's name
region: us-east-1

head_node:
  instance_type: m6i.large            # runs Slurm's controller and shares /home; runs no jobs
  volume_gib: 50

partitions:
  - name: train                       # its nodes: train-1, train-2 and so on
    instance_types: [g5.12xlarge]     # the first one with capacity is launched; all must have as many GPUs
    min_nodes: 0                      # always on
    max_nodes: 4                      # launched when a job needs them
    idle_minutes: 10                  # terminated after so long without a job
    # efa: required                   # refuse instance types without EFA (default: auto, use EFA if there is any)
"""


def examples() -> dict[str, Path]:
    """Example clusters by name."""
    return {path.stem: path for path in sorted((shipped.ROOT / "examples").glob("*.yaml")) if path.stem != "reference"}


def _example(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    if name not in examples():
        raise click.BadParameter(f"no example {name!r}; there are {', '.join(examples())}", ctx, parameter)
    return examples()[name].read_text(encoding="utf-8")


def _template(ctx: click.Context, parameter: click.Parameter, name: str | None) -> Template | None:
    if name is None:
        return None
    if name not in templates():
        raise click.BadParameter(f"no template {name!r}; there are {', '.join(templates())}", ctx, parameter)
    return templates()[name]


def _rows() -> Iterator[tuple[str, str, str]]:
    for name, template in templates().items():
        yield "--template", name, template.title
    for name, path in examples().items():
        yield "--example", name, _first_sentence(path.read_text(encoding="utf-8"))


def _first_sentence(text: str) -> str:
    comment = " ".join(line.lstrip("# ") for line in text.splitlines()[:3])
    return re.split(r"[.:;] ", comment)[0]


def _completions(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


EXAMPLES = """\b
Examples:
  gpucluster init                          # cluster.yaml in the current folder
  gpucluster init --example g5-spot
  gpucluster init --template fsdp work     # work/job.yaml, work/train.py and more
  gpucluster init --from pcluster.yaml     # cluster.yaml, converted from ParallelCluster 3
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--list",
    "listed",
    is_flag=True,
    help="List the templates and examples with a line about each, and exit.",
)
@click.option(
    "--template",
    metavar="NAME",
    callback=_template,
    shell_complete=lambda ctx, parameter, incomplete: _completions(templates(), incomplete),
    help="Write a folder with a job, its program and a cluster file. --list shows the names.",
)
@click.option(
    "--example",
    "text",
    metavar="NAME",
    callback=_example,
    shell_complete=lambda ctx, parameter, incomplete: _completions(examples(), incomplete),
    help="Start from an example such as p5-capacity-block or g5-spot. --list shows the names.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Convert a configuration file of AWS ParallelCluster 3; - is stdin. docs/existing-slurm.md lists its keys.",
)
@click.argument(
    "file",
    required=False,
)
@click.pass_obj
def command(
    context: CliContext,
    listed: bool,
    file: str | None,
    text: str | None,
    template: Template | None,
    source: str | None,
) -> None:
    """Write a commented cluster file to FILE, to that of -c, or to cluster.yaml. Files that exist are not overwritten.

    With --template, FILE is a new folder. Its default is the template's name. The last line on stdout is the path.
    """
    if listed:
        if file:
            raise click.UsageError(f"--list takes no FILE, got {file}")
        click.echo("\n".join(columns([*_rows()])))
        return
    if source and (text or template):
        raise click.UsageError("--from converts a file, so it takes neither --example nor --template")
    if template:
        folder = Path(file or template.folder.name)
        own = {NAME: STARTER, **template.texts()} | ({NAME: text} if text else {})
        texts = {folder / name: content for name, content in own.items()}
        _write(texts, f"name another folder: gpucluster init --template {template.folder.name} FOLDER")
        click.echo(
            f"next: cd {folder}, gpucluster up (or gpucluster up --local), gpucluster submit {JOB} --follow", err=True
        )
        click.echo(str(folder))
        return
    path = Path(file) if file else context.config_path if context.chosen else Path(NAME)
    if path.is_dir() or (file or "").endswith("/"):
        raise UsageError(f"{path} is a folder", f"name the file: gpucluster init {path / NAME}")
    if source:
        _convert(source, path)
        return
    _write({path: text or STARTER}, "name another: gpucluster init my-cluster.yaml")
    click.echo("next: gpucluster plan, then gpucluster up on AWS, or gpucluster up --local on this machine", err=True)
    click.echo(str(path))


def _convert(source: str, path: Path) -> None:
    from gpucluster.cli.frame.converting import converted

    _check_free([path], f"name another: gpucluster init --from {source} my-cluster.yaml")
    made = converted(source)
    _write({path: made.text}, f"name another: gpucluster init --from {source} my-cluster.yaml")
    click.echo(f"keys of {source}: {made.summary()}", err=True)
    for each in made.look:
        click.echo(f"check: {each}", err=True)
    after = f"gpucluster -c {path} plan" if made.complete else f"edit {path}, then gpucluster validate {path}"
    click.echo(f"next: {after}", err=True)
    click.echo(str(path))


def _check_free(paths: Iterable[Path], other: str) -> None:
    for path in paths:
        if os.path.lexists(path):
            raise UsageError(f"{path} already exists", other)


def _write(texts: dict[Path, str], other: str) -> None:
    """Writes all files, or none if one of them exists. `other`: the hint for that case."""
    _check_free(texts, other)
    for path, text in texts.items():
        try:
            if len(texts) > 1:
                path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except FileNotFoundError:
            why = f"there is no folder {path.parent}"
            raise UsageError(f"{path} cannot be written: {why}", f"mkdir -p {path.parent}") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
