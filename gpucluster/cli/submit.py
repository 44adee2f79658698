"""`gpucluster submit`: a job from job.yaml, from flags, or from both; flags override the file.

`--dry-run` must stay quick: nothing here imports boto3, paramiko, rich or json before it is needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_options import SECTIONS, given_keys, job_options
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


@click.command(cls=WithProgram, epilog=EXAMPLES, sections=SECTIONS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[JOB.YAML] [-- COMMAND...]")
@job_options()
@click.option("--instance-type", metavar="TYPE", help="On SageMaker: other machines than those of its file.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the Slurm script, or SageMaker's request, to stdout and submit nothing. Needs no cluster.",
)
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
    instance_type: str | None,
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
    from gpucluster.cli.frame import on_sagemaker
    from gpucluster.job.load import is_pipeline
    from gpucluster.submission.prepare import prepare

    file, given = split(words)
    given |= given_keys(flags)
    if on_sagemaker.is_meant(file, given):
        alone = {"emit-only": emit_only, "test-only": test_only}
        of_slurm = tuple(key for key, value in alone.items() if value)
        asked = on_sagemaker.Asked(dry_run, force, clean, follow, instance_type, of_slurm)
        return on_sagemaker.run(context, file, given, asked)
    if instance_type:
        raise UsageError("--instance-type: only a job on SageMaker has it", "add --on sagemaker, or use --partition")
    if file and is_pipeline(file):
        from gpucluster.cli.frame import pipelines

        options = {"clean-state": clean, "emit-only": emit_only, "test-only": test_only}
        options = given | {key: value for key, value in options.items() if value}
        return pipelines.run(context, file, [*options], force=force, dry_run=dry_run, follow=follow)
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
        for build in submitted.builds:
            following.tell(build.description)
        for wait in submitted.waits:
            done = f"{wait.description}, has already succeeded"
            following.tell(f"job {job_id} waits for {wait.description}" if wait.queued else done)
        if submitted.packages in submission.PACKAGES_TOLD:
            following.tell(submission.PACKAGES_TOLD[submitted.packages])
        price = None if request.site else money.of_job(layout, request.spec, request.server_nodes)
        if price and not local_cloud.read(context.config_path, config.name):
            following.tell(price)
        if request.spec.elements:
            line["elements"] = len(request.spec.elements)
        following.finish(remote, job_id, line, to_end=follow)
    return 0
