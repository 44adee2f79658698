"""`gpucluster metrics`: curves of what a job prints or logs, and of the load of its nodes and GPUs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame import target
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_and_names
from gpucluster.errors import CloudError, UsageError
from gpucluster.following.usage import UNITS

if TYPE_CHECKING:
    from gpucluster.cli.seeing.metric_files import Found
    from gpucluster.head.remote import Remote
    from gpucluster.sagemaker.following.account import Account

EVERY_S = 5.0


@click.command()
@click.argument("words", nargs=-1, metavar="[JOB_ID] [NAME]...")
@click.option("-f", "--follow", is_flag=True, help="Draw the curves again and again until the job ends, or until q.")
@click.option("--png", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curves to FILE as PNG.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curves to FILE as SVG.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write comma-separated values to FILE; - is stdout.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
@click.pass_obj
def command(
    context: CliContext,
    words: tuple[str, ...],
    follow: bool,
    png: Path | None,
    svg: Path | None,
    csv_file: str | None,
    as_json: bool,
) -> int:
    """Draw the metrics of the job JOB_ID, or of the newest job, and the load of its nodes while it runs or ran.

    NAME selects curves: metrics of the job, or samples such as gpu_util_percent, which then have a curve for each GPU.
    Without NAME the samples are means over the job's nodes. Of a training job on SageMaker, the values are read from
    its log with the expressions of `metrics`, and the samples from CloudWatch.
    """
    from gpucluster.cli.seeing import metric_files

    job_id, names = job_and_names(words)
    pictures = [(file, kind) for file, kind in ((png, "png"), (svg, "svg")) if file]
    _check(follow, pictures, csv_file, as_json)
    if training := target.sagemaker(context, job_id):
        found = _of_training_job(training, job_id, names, follow=follow)
    else:
        with head(context) as remote:
            chosen = _chosen(remote, job_id)
            if follow:
                _follow(remote, chosen, names)
                return 0
            found = metric_files.read(remote, chosen, names)
    for file, kind in pictures:
        metric_files.plot(found, file, kind)
        click.echo(f"plot written to {file}", err=True)
    if csv_file:
        metric_files.write_csv(found, csv_file)
    if as_json:
        click.echo(json.dumps(metric_files.as_json(found)))
    if not (pictures or csv_file or as_json):
        click.echo("\n".join(_picture(found, shutil.get_terminal_size().columns)))
    return 0


def _of_training_job(training: Account, name: str | None, names: Sequence[str], *, follow: bool) -> Found:
    """Raises AwsError, UsageError."""
    from gpucluster.cli.seeing import metric_files
    from gpucluster.sagemaker.following import jobs, metrics

    if follow:
        hint = "`gpucluster metrics` draws them once, `gpucluster tensorboard` again and again"
        raise UsageError("--follow: the curves of a training job are not followed", hint)
    job = jobs.describe(training, name or jobs.newest(training))
    own, asked = [each for each in names if each not in UNITS], [each for each in names if each in UNITS]
    points = metrics.points(training, job) if own or not names else {}
    if missing := [each for each in own if each not in points]:
        known = ", ".join([*metrics.definitions(job), *UNITS])
        raise UsageError(f"job {job.name} has no values of {missing[0]!r}", f"it has {known}")
    samples, lacks = metrics.load(training, job, asked) if asked or not names else ([], [])
    kept = {key: found for key, found in points.items() if key in own or not names}
    return metric_files.Found(job.name, names, kept, samples, lacks)


def _check(follow: bool, pictures: Sequence[tuple[Path, str]], csv_file: str | None, as_json: bool) -> None:
    """Raises UsageError."""
    if follow and (pictures or csv_file or as_json):
        raise UsageError("--follow draws in the terminal only", "leave out --png, --svg, --csv and --json")
    if as_json and csv_file == "-":
        raise UsageError("--json and --csv - both print to stdout", "give one of the two, or --csv FILE")
    from gpucluster.measure.plot import check_place

    for file, kind in pictures:
        check_place(file, f"--{kind}")


def _chosen(remote: Remote, job_id: str | None) -> str:
    """Raises UsageError."""
    from gpucluster.following import jobs

    found = job_id or jobs.latest(remote)
    jobs.require_folder(remote, found)
    if jobs.is_array(remote, found):
        raise UsageError(
            f"job {found} has metrics for each element", f"`gpucluster results {found}` lists the last values"
        )
    return found


def _picture(found: Found, width: int) -> list[str]:
    from gpucluster.cli.seeing.curves import lines

    return [*(lines(found.curves(), width) or [f"job {found.job_id} has no values yet"]), *found.lacks]


def _follow(remote: Remote, job_id: str, names: Sequence[str]) -> None:
    """The last picture stays in the terminal."""
    from rich.live import Live
    from rich.text import Text

    from gpucluster.cli.seeing import keys, metric_files
    from gpucluster.cli.seeing.top import terminal
    from gpucluster.following import jobs

    console, key, shown = terminal(), "", [f"job {job_id} has no values yet"]
    if not console.is_terminal or console.is_dumb_terminal:
        raise UsageError("--follow needs a terminal", f"`gpucluster metrics {job_id}` draws the curves once")
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live, keys.pressed() as pressed:
            while key.lower() not in ("q", "\x1b"):
                try:
                    shown = _picture(metric_files.read(remote, job_id, names, expected=False), console.width)
                    over = jobs.ending(remote, job_id) is not None
                    said = ""
                except CloudError as error:  # such as a head node that restarts
                    over, said = False, f"no answer: {error.message}"
                live.update(Text("\n".join([*shown, *filter(None, [said])]), no_wrap=True), refresh=True)
                if over:
                    break
                key = pressed(EVERY_S)
    except KeyboardInterrupt:
        pass  # the usual end
    click.echo("\n".join(shown))
