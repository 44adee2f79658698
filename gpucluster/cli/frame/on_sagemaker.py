"""`submit --on sagemaker`. With --dry-run, the request on stdout; what each rank reads, and warnings, on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.warn import warn
from gpucluster.errors import GpuClusterError, UsageError

if TYPE_CHECKING:
    from gpucluster.job import JobSpec
    from gpucluster.sagemaker.connection import Connection
    from gpucluster.sagemaker.prepare import Prepared
    from gpucluster.sagemaker.target import Target


class Asked(NamedTuple):
    """Options of `submit` that are no keys of a job."""

    dry_run: bool
    force: bool
    clean: bool
    follow: bool = False
    instance_type: str | None = None
    of_slurm: tuple[str, ...] = ()
    """Those without a meaning on SageMaker."""


def is_meant(file: Path | None, flags: Mapping[str, Any]) -> bool:
    """Whether --on, or else `target` of the file, names SageMaker."""
    from gpucluster.job.load import names_sagemaker

    place = flags.get("target")
    return place == "sagemaker" if place else file is not None and names_sagemaker(file)


def run(context: CliContext, file: Path | None, flags: Mapping[str, Any], asked: Asked) -> int:
    """Raises ConfigError, JobSpecError, UsageError, AwsError."""
    from datetime import UTC, datetime

    from gpucluster.job.load import is_pipeline
    from gpucluster.sagemaker import found, request, sweeps, tasks
    from gpucluster.sagemaker.prepare import prepare
    from gpucluster.sagemaker.target import with_type

    if asked.of_slurm:
        raise UsageError(f"--{asked.of_slurm[0]} does not work on SageMaker", "leave it out")
    if file and is_pipeline(file):
        raise UsageError(f"{file}: several jobs, and only one at a time goes to SageMaker", "name the file of one job")
    where = found.find(context.config_path, chosen=context.chosen)
    target = with_type(where.target, asked.instance_type) if asked.instance_type else where.target
    now = datetime.now(UTC).strftime(request.STARTED_AT)
    connection = where.connect()
    newest = newest_of(connection)
    asks = cache(listing_of(connection)), _as_far_as_known(newest, target) if asked.dry_run else newest
    whole, jobs = sweeps.prepared(lambda adapt: prepare(target, file, flags, now, *asks, adapt))
    if asked.dry_run:
        return _show(jobs)
    if whole.sweep:
        return _sweep(connection, target, f"{tasks.stem(whole.name or '')}-{now}", whole, jobs, asked)
    return _submit(connection, target, jobs[0], asked)


def _sweep(
    connection: Connection, target: Target, name: str, whole: JobSpec, jobs: Sequence[Prepared], asked: Asked
) -> int:
    from gpucluster.cli.frame import training_sweep
    from gpucluster.cli.frame.following import tell
    from gpucluster.sagemaker import submission
    from gpucluster.sagemaker.following.account import Account

    warn(dict.fromkeys(warning for job in jobs for warning in job.checked()))

    def submit(job: Prepared) -> submission.Submitted:
        return submission.submit(connection, target, job, force=asked.force, clean=asked.clean, tell=tell)

    account = Account(target, connection.client)
    return training_sweep.run(account, name, whole, jobs, submit, follow=asked.follow)


def _show(jobs: Sequence[Prepared]) -> int:
    """The request; of a sweep, the list of its elements' requests."""
    import json

    job, requests = jobs[0], [each.request for each in jobs]
    warn(job.notes)
    for line in job.planned.reads:
        click.echo(line, err=True)
    for folder in job.inputs:
        click.echo(f"local folder that the job needs in {folder.target}: {folder.summary}", err=True)
    for address in job.planned.manifests:
        click.echo(f"manifest that the job needs: {address}", err=True)
    click.echo(json.dumps(requests if len(requests) > 1 else requests[0], indent=2))
    return 0


def _submit(connection: Connection, target: Target, job: Prepared, asked: Asked) -> int:
    import json

    from gpucluster.cli.frame import money, training_log
    from gpucluster.cli.frame.following import tell
    from gpucluster.sagemaker import request, submission
    from gpucluster.sagemaker.following.account import Account

    warn(job.checked())
    for read in job.planned.reads:
        tell(read)
    done = submission.submit(connection, target, job, force=asked.force, clean=asked.clean, tell=tell)
    line: dict[str, Any] = {"job_id": done.job, "folder": request.place(target, done.job), "name": job.spec.name}
    if done.skipped:
        same = "succeeded with the same code, inputs, packages and command"
        tell(f"skipped: job {done.job} {same}; --force runs it again")
        click.echo(json.dumps(line | {"skipped": True}))
        return 0
    nodes, ranks = job.spec.nodes, job.spec.nodes * request.ranks_per_node(job.spec, target)
    size = f"{ranks} rank{'s' * (ranks > 1)} on {nodes} host{'s' * (nodes > 1)} of {target.instance_type}"
    tell(f"job {done.job} submitted: {size}")
    if not connection.is_local and (price := money.of_training(job.spec, target)):
        tell(price)
    link = submission.console(target.region, done.job)
    tell(link)
    account = Account(target, connection.client)
    training_log.finish(account, done.job, line | {"console": link}, to_end=asked.follow)
    return 0


def listing_of(connection: Connection) -> Any:
    """For `prepare`."""

    def read(uri: str, everything: bool) -> Any:
        from gpucluster.cluster.aws import aws_errors
        from gpucluster.sagemaker import listing

        with aws_errors():
            return listing.read(connection.client("s3"), uri, all_of_them=everything)

    return read


def newest_of(connection: Connection) -> Any:
    """For `prepare`."""

    def find(project: str, name: str) -> Any:
        from gpucluster.sagemaker import refused, tasks

        with refused.explained():
            return tasks.newest(connection.client("sagemaker"), project, name)

    return find


def _as_far_as_known(newest: Any, target: Target) -> Any:
    """For --dry-run, which needs no credentials: a task that cannot be looked for counts as one that has succeeded."""

    @cache  # each element of a sweep asks
    def find(project: str, name: str) -> Any:
        from gpucluster.sagemaker.tasks import Run

        try:
            return newest(project, name)
        except GpuClusterError as error:
            warn([f"the task {project}/{name} was not looked for: {error.message}; its outputs may lie elsewhere"])
            return Run("", "Completed", "", f"{target.root}/tasks/{project}/{name}")

    return find
