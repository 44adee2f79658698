"""`gpucluster submit`: a job from job.yaml, from flags, or from both; the flags win.

`--dry-run` must stay quick: nothing here imports boto3, paramiko or rich before it is needed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_options import job_options, name_values
from gpucluster.cli.frame.with_program import YAML, WithProgram
from gpucluster.errors import UsageError

if TYPE_CHECKING:
    from gpucluster.job import JobSpec, SbatchRequest
    from gpucluster.submission.packages import Packages


EXAMPLES = """\b
Examples:
  gpucluster submit --nodes 2 --follow -- python train.py --epochs 10
  gpucluster submit job.yaml --nodes 4
  gpucluster submit job.yaml --dry-run
"""


def _servers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, float] | None:
    """`2` is short for nodes=2. Whether the keys and numbers are right is the job's to say."""
    if value is None:
        return None
    try:
        pairs = dict(pair.split("=", 1) for pair in (f"nodes={value}" if value.isdigit() else value).split(","))
        return {key: float(text) if "." in text or key == "ratio" else int(text) for key, text in pairs.items()}
    except ValueError:
        raise click.BadParameter(f"must be such as 2 or nodes=2,per_node=2, got {value!r}", ctx, parameter) from None


def _channels(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, dict[str, str]] | None:
    """A source may have commas and equals signs of its own: only what names a key is one."""
    found = {}
    for value in values:
        name, separator, rest = value.partition("=")
        source, *pairs = re.split(r",(?=[a-z]+=)", rest)
        if not (name and separator and source):
            raise click.BadParameter(f"must be NAME=SOURCE or NAME=SOURCE,shard=by-node, got {value!r}", ctx, parameter)
        found[name] = {"source": source} | dict(pair.split("=", 1) for pair in pairs)
    return found or None


def _files(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Named as seen from here; those of job.yaml, as seen from there."""
    return tuple(str(Path(value).expanduser().absolute()) for value in values)


def _values(name: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """For the shell's completion. Looked up when a shell asks: `submit --help` needs no launcher."""

    def values(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from typing import get_args

        from gpucluster.config.models import Framework
        from gpucluster.launchers import LAUNCHERS

        known = LAUNCHERS if name == "launcher" else get_args(Framework)
        return [each for each in known if each.startswith(incomplete)]

    return values


@click.command(cls=WithProgram, epilog=EXAMPLES)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[JOB.YAML] [-- COMMAND...]")
@click.option("-J", "--name", "--job-name", "name", help="Job name. Default: from the program's file name.")
@click.option("-N", "--nodes", "--num-nodes", "nodes", type=int, help="Number of nodes. Default: 1.")
@job_options
@click.option(
    "--launcher",
    shell_complete=_values("launcher"),
    help="torchrun (default), horovodrun, mpirun, srun, smddp, mxnet-ps, tensorflow-ps, tensorflow-mwms.",
)
@click.option(
    "--framework",
    shell_complete=_values("framework"),
    help="Environment of the ranks: torch, horovod, smddp, mxnet, tensorflow. Default: the launcher's own.",
)
@click.option("--controller", type=click.Choice(["gloo", "mpi"]), help="For horovodrun. Default: gloo.")
@click.option("--min-nodes", type=int, help="For horovodrun: continue after losing nodes while this many are left.")
@click.option(
    "--servers",
    metavar="NODES|KEY=VALUE,...",
    callback=_servers,
    help="Nodes for parameter servers: 2, or nodes=2,per_node=2, or ratio=1. Default: the workers' nodes.",
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="NAME=SOURCE[,shard=…][,mode=…][,unpack=tar]",
    callback=_channels,
    help="Input data, such as train=s3://bucket/prefix or train=/fsx/folder; repeatable.",
)
@click.option(
    "--exports", multiple=True, metavar="PATH", help="Lustre folder to export to S3 at the end of the job; repeatable."
)
@click.option("--efa", type=click.Choice(["auto", "required"]), help="required: fail if NCCL would use TCP.")
@click.option(
    "--preflight",
    type=click.Choice(["off", "quick", "full"]),
    help="Check the nodes first; full also measures bandwidth. Default: quick.",
)
@click.option(
    "--requirements",
    multiple=True,
    metavar="FILE",
    callback=_files,
    help="Packages to install for the ranks: a requirements.txt, pyproject.toml or uv.lock; repeatable.",
)
@click.option(
    "--with", "with", multiple=True, metavar="PACKAGE", help="Package for the ranks, such as torchvision; repeatable."
)
@click.option(
    "--setup", multiple=True, metavar="LINE", help="Bash to run once after that: 'pip install .'; repeatable."
)
@click.option("--python", metavar="FOLDER", help="Folder of a venv or conda environment on the cluster.")
@click.option("--container-image", help="Run the ranks in this image: from a registry, or a squashfs file.")
@click.option(
    "--container-mounts", multiple=True, metavar="FROM:TO[:ro]", help="Path to mount into the container; repeatable."
)
@click.option("--requeue/--no-requeue", default=None, help="Run again after a node failure. Default: yes.")
@click.option("--exclusive/--no-exclusive", default=None, help="Share the nodes with no other job. Default: yes.")
@click.option(
    "--metrics",
    multiple=True,
    metavar="NAME=REGEX",
    callback=name_values,
    help="Regular expression that finds a value in the log, for result.json; repeatable.",
)
@click.option("--signal", help="Signal for the ranks before the time limit: USR1@120 is 120 s before.")
@click.option("--sbatch-args", multiple=True, metavar="OPTION", help="Further option of sbatch; repeatable.")
@click.option("--dry-run", is_flag=True, help="Print the script to stdout and stop. Needs no cluster.")
@click.option(
    "--emit-only", type=click.Path(path_type=Path), metavar="DIR", help="Write the job's folder to DIR and stop."
)
@click.option("-f", "--follow", is_flag=True, help="Show the log until the job ends; fail if the job fails.")
@click.pass_obj
def command(
    context: CliContext, /, words: tuple[str, ...], dry_run: bool, emit_only: Path | None, follow: bool, **flags: Any
) -> int:
    """Submit a training job: `submit job.yaml`, `submit --nodes 2 -- python train.py`, or both together.

    The last line is JSON: job_id and folder. With --follow the log comes first, and the exit code is 4 if the job
    failed. Ctrl-C detaches, and the job continues.
    """
    from gpucluster.job import program

    file, given = _split(words)
    spec, request, config = _request(
        context, file, {key: value for key, value in flags.items() if value not in (None, ())} | given
    )
    workdir = _workdir(spec, file)
    own = _packages(spec, request, file, workdir)
    problem = program.problem(spec, workdir)
    if problem and not dry_run:
        raise problem
    for warning in [*program.warnings(spec), *([problem.message] if problem else [])]:
        click.echo(f"warning: {warning}", err=True)
    if dry_run:
        click.echo(request.materialize(), nl=False)
        return 0
    from gpucluster.submission import snapshot

    for link in snapshot.leading_out(workdir) if workdir else ():
        click.echo(f"warning: the link {link} points outside the workdir: only the link is uploaded", err=True)
    if emit_only:
        return _emit(request, workdir, own, emit_only)
    return _submit(context, config, request, workdir, own, follow)


def _split(words: tuple[str, ...]) -> tuple[Path | None, dict[str, Any]]:
    """Click has taken the `--` out: a first word that names a YAML file is one, the rest is the command."""
    file = Path(words[0]) if words and words[0].endswith(YAML) else None
    rest = words[1:] if file else words
    return file, {"command": rest} if rest else {}


def _request(context: CliContext, file: Path | None, flags: dict[str, Any]) -> tuple[JobSpec, SbatchRequest, Any]:
    from gpucluster.job import SbatchRequest, load
    from gpucluster.job.script import folder_name, folder_path
    from gpucluster.layout import expand

    layout = expand(context.load())
    spec = load(layout, file, flags)
    return spec, SbatchRequest.from_spec(spec, layout, folder_path(folder_name(spec))), layout.config


def _workdir(spec: JobSpec, file: Path | None) -> Path | None:
    if spec.workdir is None:
        return None
    return (file.parent if file else Path()) / Path(spec.workdir).expanduser()


def _packages(spec: JobSpec, request: SbatchRequest, file: Path | None, workdir: Path | None) -> Packages | None:
    if not spec.requirements and not spec.setup:
        return None
    from gpucluster.submission import packages

    return packages.of(spec, request.environment, file.parent if file else Path(), workdir)


def _emit(request: SbatchRequest, workdir: Path | None, own: Packages | None, target: Path) -> int:
    """The folder as it would be on the cluster, without secrets."""
    import io
    import shutil
    import tarfile

    from gpucluster.submission.submit import pack

    if target.exists():
        raise UsageError(f"--emit-only {target}: already exists", "name a new directory")
    packed = pack(request, {}, workdir, own)
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            for member in tar:
                member.name = str(target.name + member.name.removeprefix(Path(request.folder).name))
                tar.extract(member, target.parent, filter="tar")  # links lead where they do on the cluster
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise UsageError(f"--emit-only {target}: cannot be written: {error.strerror}") from None
        raise
    click.echo(json.dumps({"folder": str(target), "for": request.folder}))
    return 0


def _submit(
    context: CliContext, config: Any, request: SbatchRequest, workdir: Path | None, own: Packages | None, follow: bool
) -> int:
    from gpucluster.cli.frame import following
    from gpucluster.cli.frame.connection import head
    from gpucluster.submission import submit as submission

    packed = submission.pack(request, submission.secret_values(request.spec, os.environ), workdir, own)
    with head(context, config) as remote:
        submitted = submission.submit(remote, request, packed)
        job_id = submitted.job_id
        following.tell(f"job {job_id} submitted: {request.summary}")
        for build in submitted.builds:
            following.tell(build.told)
        if submitted.packages in submission.PACKAGES_TOLD:
            following.tell(submission.PACKAGES_TOLD[submitted.packages])
        line = {"job_id": job_id, "folder": request.folder, "name": request.spec.name}
        following.finish(remote, job_id, line, to_end=follow)
    return 0
