"""`gpucluster render DIR`: every file that nodes are built from, as text."""

from __future__ import annotations

from pathlib import Path

import click

from gpucluster import render
from gpucluster.cli.frame.context import CliContext
from gpucluster.config import ClusterConfig
from gpucluster.errors import UsageError


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.pass_obj
def command(context: CliContext, folder: Path) -> int:
    """Write the files that nodes boot with to FOLDER: user data, boot scripts, Slurm's configuration.

    Use it to read them, or to compare them before and after a change. `up` does not need it. Needs no network. The last
    line on stdout is FOLDER.
    """
    files = rendered(context.load())
    for name, text in files.items():
        _write(folder / name, text)
    click.echo(f"{len(files)} files", err=True)
    click.echo(str(folder))
    return 0


def rendered(config: ClusterConfig) -> dict[str, str]:
    """Path -> text: the bundle under bundle/, and the user data of each role."""
    files = {f"bundle/{name}": text for name, text in render.bundle(config).items()}
    files["user-data/head.sh"] = render.user_data(config, "head")
    files["user-data/compute.sh"] = render.user_data(config, "compute")
    return files


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
