"""`gpucluster init [FILE]`: a cluster file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from gpucluster import shipped
from gpucluster.cli.frame.cluster_file import NAME
from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import UsageError

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
    """Whole clusters to start from, by name."""
    return {path.stem: path for path in sorted((shipped.ROOT / "examples").glob("*.yaml")) if path.stem != "reference"}


def _example(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str:
    if name is None:
        return STARTER
    if name not in examples():
        raise click.BadParameter(f"no example {name!r}; there are {', '.join(examples())}", ctx, parameter)
    return examples()[name].read_text(encoding="utf-8")


def _completions(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in examples() if name.startswith(incomplete)]


@click.command()
@click.option(
    "--example",
    "text",
    metavar="NAME",
    callback=_example,
    shell_complete=_completions,
    help="Start from an example: p5-capacity-block, p4d-fsx-smddp, g5-spot, ….",
)
@click.argument(
    "file",
    required=False,
)
@click.pass_obj
def command(context: CliContext, file: str | None, text: str) -> None:
    """Write a commented cluster file to FILE, or to the file given with -c. Overwrites no file."""
    path = Path(file) if file else context.config_path if context.chosen else Path(NAME)
    if path.is_dir() or (file or "").endswith("/"):
        raise UsageError(f"{path} is a folder", f"name the file: gpucluster init {path / NAME}")
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{path} already exists", "name another file: gpucluster init my-cluster.yaml") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    click.echo("next: gpucluster plan, then gpucluster up on AWS, or gpucluster up --local on this machine", err=True)
    click.echo(str(path))
