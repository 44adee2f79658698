"""`gpucluster tensorboard`: the event files of jobs in TensorBoard on this machine."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpucluster.addresses import in_s3
from gpucluster.cli.frame import connection, target
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.errors import GpuClusterError, UsageError
from gpucluster.head.arrays import JOB_ID

if TYPE_CHECKING:
    from gpucluster.following.event_files import Run
    from gpucluster.head.openssh import Alias

EXAMPLES = """\b
Examples:
  gpucluster tensorboard                # the newest job
  gpucluster tensorboard 12 14          # two jobs beside each other
  gpucluster tensorboard 29             # a sweep: its elements by their values
  gpucluster tensorboard s3://bucket/results/tensorboard/digits     # from S3, also without the cluster
  gpucluster tensorboard digits-20261129-102400                     # a training job on SageMaker, from S3
"""
ONLY = ("--include=*/", "--include=*.tfevents.*", "--exclude=*")
OPTIONS = ("--no-links", "--no-perms", "--relative", "--ignore-missing-args", "--prune-empty-dirs", *ONLY)
"""For rsync: event files with their whole paths, and none of what a job may have put beside them."""
RELOAD_S = 5
"""How often TensorBoard looks at this machine's copy."""


def _places(ctx: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    if in_s3(next(iter(words), None)):
        if len(words) > 1:
            raise click.BadParameter("takes one s3:// address, or job IDs: name the folder that has them all")
        return words
    names = tuple(dict.fromkeys(map(target.any_job, words)))
    if len(names) > 1 and not all(map(JOB_ID.fullmatch, names)):
        raise click.BadParameter("takes one training job of SageMaker, or job IDs of the cluster")
    return names


@click.command(epilog=EXAMPLES)
@click.argument("jobs", nargs=-1, metavar="[JOB_ID]...", callback=_places)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Port on this machine.  [default: 6006, or the next free one]",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.IntRange(5, 3600),
    default=60,
    metavar="SECONDS",
    help="Look for new data this often.  [default: 60]",
)
@click.pass_obj
def command(context: CliContext, jobs: tuple[str, ...], port: int | None, interval_s: int) -> int:
    """Open TensorBoard with the event files of jobs, until you press Ctrl-C. Without a job ID: the newest job.

    Rank 0 writes event files to the folder $GPUCLUSTER_TENSORBOARD. They are copied to this machine through the tunnel,
    and TensorBoard runs here, in an environment of its own without TensorFlow. Only this machine can connect to it.
    """
    from gpucluster.cli.seeing import viewer

    on = viewer.port(port)
    try:
        if address := _address(context, jobs):
            with viewer.shown(viewer.python(tell), address, on, interval_s) as process:
                click.echo(f"http://localhost:{on}")
                process.wait()
            return 0
        _copied(context, jobs, on, interval_s)
    except KeyboardInterrupt:
        tell("\nTensorBoard has ended")
    return 0


def _address(context: CliContext, jobs: Sequence[str]) -> str:
    """In S3; empty if the event files are on the cluster. Raises AwsError, UsageError."""
    asked = next(iter(jobs), None)
    if in_s3(asked):
        return str(asked)
    training = target.sagemaker(context, asked)
    if training is None:
        return ""
    from gpucluster.sagemaker.following import jobs as training_jobs

    job = training_jobs.describe(training, asked or training_jobs.newest(training))
    if not job.tensorboard:
        raise UsageError(f"SageMaker copies no event files of job {job.name}", "`gpucluster submit` makes it do so")
    return job.tensorboard


def _copied(context: CliContext, asked: Sequence[str], on: int, interval_s: int) -> None:
    """Raises CloudError, UsageError."""
    from gpucluster.cli.seeing import viewer
    from gpucluster.following import event_files, jobs
    from gpucluster.head import copying

    copying.require("ssh")
    copying.require("rsync")
    config = context.layout().config if not context.chosen_context() else None
    with head(context, config) as remote:
        runs = event_files.of(remote, asked or [jobs.latest(remote)])
    program = viewer.python(tell)
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="gpucluster-tensorboard-")))
        alias = opened.enter_context(connection.alias(context, config))
        logs = laid_out(folder, runs)
        copy(alias, folder, runs)
        if not any(folder.glob("copy/**/*.tfevents.*")):
            tell("there are no event files yet: the job's rank 0 writes them to the folder $GPUCLUSTER_TENSORBOARD")
        process = opened.enter_context(viewer.shown(program, str(logs), on, RELOAD_S))
        click.echo(f"http://localhost:{on}")
        again(process, interval_s, lambda: copy(alias, folder, runs))


def again(process: subprocess.Popen[bytes], interval_s: float, copy: Callable[[], None]) -> None:
    """Copies what is new until TensorBoard ends. If the head node is away, TensorBoard shows the last copy."""
    problem = ""
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(interval_s)
            return
        try:
            copy()
            problem = ""
        except GpuClusterError as error:
            if error.message != problem:
                tell(f"warning: nothing new can be copied: {error.message}; trying again every {interval_s:.0f} s")
            problem = error.message


def laid_out(folder: Path, runs: Sequence[Run]) -> Path:
    """TensorBoard names runs by their folders below the one that it reads: each is a link into the copy."""
    logs = folder / "logs"
    for run in runs:
        link = logs / run.label
        if link.is_symlink():  # values that differ in what a name of a folder cannot show
            link = link.with_name(f"{link.name} ({run.job_id})")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"{folder}/copy{run.folder}")
    return logs


def copy(alias: Alias, folder: Path, runs: Sequence[Run]) -> None:
    """What is new, over one connection for all runs. Raises CloudError."""
    from gpucluster.head import copying

    (folder / "copy").mkdir(exist_ok=True)
    sources = [copying.Place(copying.HEAD, f"{run.folder}/") for run in runs]
    wanted = copying.Copy(sources, copying.Place(None, f"{folder}/copy/"))
    copying.run(copying.rsync_argv(alias, wanted, OPTIONS, inplace=True), copying.HEAD, tell)
