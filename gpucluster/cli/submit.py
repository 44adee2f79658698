"""`gpucluster submit`: a job from job.yaml, from flags, or from both; flags override the file.

`--dry-run` must stay quick: nothing here imports boto3, paramiko, rich or json before it is needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_options import NULL, NUMBER_OR_NULL, given_keys, job_options, name_values
from gpucluster.cli.frame.slurm_options import slurm_options
from gpucluster.cli.frame.warn import warn
from gpucluster.cli.frame.with_program import WithProgram, split
from gpucluster.errors import UsageError

if TYPE_CHECKING:
    from gpucluster.job import SbatchRequest
    from gpucluster.layout import Layout
    from gpucluster.submission.prepare import Prepared


EXAMPLES = """\b
Examples:
  gpucluster submit --nodes 2 --follow -- python train.py --epochs 10
  gpucluster submit job.yaml --nodes 4
  gpucluster submit job.yaml --dry-run
  gpucluster submit --name lr --sweep lr=0.1,0.01 -- python train.py --lr {lr}
  gpucluster submit --channel train=s3://bucket/imagenet --time 2:00:00 -- python train.py
"""


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
    """A source may contain commas and equals signs: only KEY= with a known key is read as a key."""
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


SECTIONS = {
    "Name, size and time": ("name", "project", "nodes", "partition", "gpus_per_node", "ntasks_per_node", "time"),
    "Program": (
        "launcher", "framework", "controller", "min_nodes", "servers", "env", "secrets", "workdir", "signal",
        "hang_timeout", "metrics",
    ),
    "Packages and containers": ("requirements", "with", "setup", "python", "container_image", "container_mounts"),
    "Data": ("channels", "outputs", "exports"),
    "Several jobs and runs": (
        "sweep", "array", "max_parallel", "after", "requeue", "state", "resubmit", "resubmit_limit", "clean", "force",
    ),
    "Checks before the program starts": ("preflight", "efa"),
    "Slurm": (
        "exclusive", "account", "qos", "mem", "cpus_per_task", "constraint", "reservation", "dependency", "begin",
        "output", "sbatch_args",
    ),
}  # fmt: skip


@click.command(cls=WithProgram, epilog=EXAMPLES, sections=SECTIONS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[JOB.YAML] [-- COMMAND...]")
@click.option(
    "-J", "--name", "--job-name", "name", metavar="NAME", help="Job name.  [default: the program's file name]"
)
@click.option(
    "--project",
    metavar="NAME",
    help="Project of the task.  [default with --name: the folder's name]",
)
@click.option("-N", "--nodes", "--num-nodes", "nodes", type=int, metavar="N", help="Number of nodes.  [default: 1]")
@job_options
@click.option(
    "--launcher",
    metavar="NAME",
    shell_complete=_values("launcher"),
    help="What starts the ranks: torchrun, horovodrun, mpirun, srun, smddp, mxnet-ps, tensorflow-ps, tensorflow-mwms.  "
    "[default: torchrun]",
)
@click.option(
    "--framework",
    metavar="NAME",
    shell_complete=_values("framework"),
    help="Python environment of the ranks: torch, horovod, smddp, mxnet, tensorflow.  [default: the launcher's own]",
)
@click.option(
    "--controller",
    type=click.Choice(["gloo", "mpi"]),
    help="With horovodrun: how its ranks coordinate.  [default: gloo]",
)
@click.option(
    "--min-nodes",
    type=NUMBER_OR_NULL,
    metavar="N",
    help="With horovodrun: if nodes are lost, continue while N nodes are left.",
)
@click.option(
    "--servers",
    metavar="NODES|KEY=VALUE,...",
    callback=_servers,
    help="Nodes for parameter servers: 2, or nodes=2,per_node=2, or ratio=1.  [default: the workers' nodes]",
)
@click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="NAME=SOURCE[,shard=…][,mode=…][,unpack=tar]",
    callback=_channels,
    help="Input data: train=s3://bucket/prefix, train=/fsx/folder, train=./folder to upload it, or "
    "train=task:TASK,output=NAME for the output of another task; repeatable.",
)
@click.option(
    "--outputs", multiple=True, metavar="NAME", help="Folder that the job writes for other tasks to read; repeatable."
)
@click.option(
    "--after", multiple=True, metavar="JOB|TASK", help="Start after this job or task has succeeded; repeatable."
)
@click.option(
    "--exports", multiple=True, metavar="FOLDER", help="Lustre folder to export to S3 when the job ends; repeatable."
)
@click.option(
    "--efa",
    type=click.Choice(["auto", "required"]),
    help="required: fail if NCCL would use TCP instead of EFA.  [default: auto]",
)
@click.option(
    "--preflight",
    type=click.Choice(["off", "quick", "full"]),
    help="Check the nodes first; full also measures bandwidth.  [default: quick]",
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
    "--setup",
    multiple=True,
    metavar="LINE",
    help="Line of bash to run once after the packages are installed: 'pip install .'; repeatable.",
)
@click.option("--python", metavar="FOLDER", help="Folder of a venv or conda environment on the cluster.")
@click.option(
    "--container-image",
    metavar="IMAGE",
    help="Run the ranks in this container: a registry's image, or a squashfs file.",
)
@click.option(
    "--container-mounts", multiple=True, metavar="FROM:TO[:ro]", help="Path to mount into the container; repeatable."
)
@click.option("--requeue/--no-requeue", default=None, help="Run the job again if a node fails.  [default: --requeue]")
@click.option(
    "--exclusive/--no-exclusive", default=None, help="Share the nodes with no other job.  [default: --exclusive]"
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="NAME=REGEX",
    callback=name_values,
    help="Value to put into result.json: a regular expression finds it in the log; repeatable.",
)
@click.option(
    "--signal", metavar="NAME@SECONDS", help="Signal for the ranks before the time limit: USR1@120 is 120 s before."
)
@click.option(
    "--hang-timeout",
    metavar="TIME",
    help="End the job if for TIME no rank prints a line or writes a file, such as 30:00 (minutes:seconds).",
)
@slurm_options
@click.option(
    "--sbatch-args",
    multiple=True,
    metavar="OPTION",
    help="Option to pass on to sbatch, such as --sbatch-args=--nice=100; repeatable.",
)
@click.option(
    "--state",
    metavar="FOLDER|s3://…",
    help="Where the task keeps its state: a folder on shared storage, or an S3 prefix.",
)
@click.option(
    "--resubmit",
    type=click.Choice(["until-done", NULL]),
    help="If the time limit stops the job, run it again from its state.",
)
@click.option(
    "--resubmit-limit", type=NUMBER_OR_NULL, metavar="N", help="With --resubmit: at most N further runs.  [default: 20]"
)
@click.option("--clean-state", "clean", is_flag=True, help="Delete the task's state first.")
@click.option("--force", is_flag=True, help="Run, even if the task's last run succeeded with the same code and inputs.")
@click.option("--dry-run", is_flag=True, help="Print the Slurm script to stdout and submit nothing. Needs no cluster.")
@click.option("--test-only", is_flag=True, help="Ask Slurm when the job would start, and submit nothing.")
@click.option(
    "--emit-only",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the job's files to FOLDER and submit nothing.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Show the log until the job ends. Ctrl-C detaches; the job continues."
)
@click.pass_obj
def command(
    context: CliContext,
    /,
    words: tuple[str, ...],
    dry_run: bool,
    test_only: bool,
    emit_only: Path | None,
    follow: bool,
    force: bool,
    clean: bool,
    **flags: Any,
) -> int:
    """Submit a job from a file, from options, or from both; options override the file. A pipeline.yaml describes
    several jobs.

    The folder of JOB.YAML is uploaded, or the current folder if there is no JOB.YAML. COMMAND runs in it: as many
    processes (ranks) on each node as it has GPUs.

    The last line on stdout is JSON: job_id and folder. With --follow the log comes first, and the exit code is 4 if the
    job failed.

    Jobs with the same --project and --name are runs of one task, which keeps a state between them. A run is skipped if
    the last one succeeded with the same code, inputs, packages and command: the line then has skipped, and that run's
    job_id.
    """
    from gpucluster.job.load import is_pipeline
    from gpucluster.submission.prepare import prepare

    file, given = split(words)
    given |= given_keys(flags)
    if file and is_pipeline(file):
        from gpucluster.cli.frame import pipelines

        alone = {"clean-state": clean, "emit-only": emit_only, "test-only": test_only}
        alone = given | {key: value for key, value in alone.items() if value}
        return pipelines.run(context, file, [*alone], force=force, dry_run=dry_run, follow=follow)
    layout = context.layout()
    job = prepare(layout, file, given)
    if dry_run:
        from gpucluster.cli.frame import dry_run as shown

        shown.show(job)
        return 0
    warn(job.checked(uploads=not test_only))
    if test_only:
        return _test(context, layout.config, job.request)
    if emit_only:
        return _emit(job, job.packed({}, force=force, clean=clean), emit_only)
    return _submit(context, layout, job, job.packed(os.environ, force=force, clean=clean), follow)


def _test(context: CliContext, config: Any, request: SbatchRequest) -> int:
    import json
    from dataclasses import asdict

    from gpucluster.cli.frame import following
    from gpucluster.cli.frame.connection import head
    from gpucluster.submission import trial

    with head(context, config) as remote:
        found = trial.expected(remote, request.materialize())
    what = f"{found.processors} CPUs on {found.nodes}"
    following.tell(
        f"Slurm would start the job at {found.start} with {what}; nodes that are powered off must boot first"
    )
    click.echo(json.dumps(asdict(found)))
    return 0


def _emit(job: Prepared, packed: bytes, target: Path) -> int:
    """Writes the job's folder as it would be on the cluster, without secrets."""
    import io
    import json
    import shutil
    import tarfile

    if target.exists():
        raise UsageError(f"--emit-only {target}: already exists", "name a new directory")
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            # Links have the targets that they have on the cluster. Debian 12's Python 3.11.2 has no filters (PEP 706).
            tar.extraction_filter = getattr(tarfile, "tar_filter", None)
            for member in tar:
                member.name = str(target.name + member.name.removeprefix(Path(job.request.folder).name))
                tar.extract(member, target.parent)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise UsageError(f"--emit-only {target}: cannot be written: {error.strerror}") from None
        raise
    click.echo(json.dumps({"folder": str(target), "for": job.request.folder}))
    return 0


def _submit(context: CliContext, layout: Layout, job: Prepared, packed: bytes, follow: bool) -> int:
    import json

    from gpucluster.cli.frame import following, money
    from gpucluster.cli.frame.connection import head
    from gpucluster.cluster import local_cloud
    from gpucluster.submission import submit as submission
    from gpucluster.submission import uploads

    request, config = job.request, layout.config
    with head(context, config) as remote:
        uploads.upload(remote, job.inputs, config.name, context.config_path, following.tell)
        submitted = submission.submit(remote, request, packed, following.tell)
        job_id = submitted.job_id
        line: dict[str, Any] = {"job_id": job_id, "folder": submitted.folder, "name": request.spec.name}
        if submitted.skipped_for:
            same = "succeeded with the same code, inputs, packages and command"
            following.tell(f"skipped: job {job_id} {same}; --force runs it again")
            click.echo(json.dumps(line | {"folder": submitted.skipped_for, "skipped": True}))
            return 0
        following.tell(f"job {job_id} submitted: {request.summary}")
        price = None if request.site else money.of_job(layout, request.spec, request.server_nodes)
        if price and not local_cloud.read(context.config_path, config.name):
            following.tell(price)
        for build in submitted.builds:
            following.tell(build.description)
        for wait in submitted.waits:
            done = f"{wait.description}, has already succeeded"
            following.tell(f"job {job_id} waits for {wait.description}" if wait.queued else done)
        if submitted.packages in submission.PACKAGES_TOLD:
            following.tell(submission.PACKAGES_TOLD[submitted.packages])
        if request.spec.elements:
            line["elements"] = len(request.spec.elements)
        following.finish(remote, job_id, line, to_end=follow)
    return 0
