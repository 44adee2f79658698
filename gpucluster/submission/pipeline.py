"""Submits a pipeline's jobs in order, each after all that it waits for.

All are prepared before the first is submitted, so that a problem that shows here does not stop the pipeline half-way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucluster.errors import GpuClusterError, UsageError
from gpucluster.head.remote import Remote
from gpucluster.job.pipeline import Pipeline, Step
from gpucluster.layout import Layout
from gpucluster.submission import prepare, uploads
from gpucluster.submission import submit as submission

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Ready:
    step: Step
    job: prepare.Prepared
    packed: bytes
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    step: Step
    job_id: str
    folder: str
    how: str
    """submitted, queued (by an earlier submission of the pipeline), or skipped."""


def make_ready(step: Step, layout: Layout, environment: Mapping[str, str], *, force: bool) -> Ready:
    """`environment`: the submitter's. Raises UsageError, with the step's name."""
    try:
        job = prepare.of(layout, step.spec, step.file, {})
        warnings = job.checked()
        return Ready(step, job, job.packed(environment, force=force, joins=True), warnings)
    except UsageError as error:
        raise UsageError(f"{step.name}: {error.message}", error.hint) from None


def submit(remote: Remote, ready: Ready, cluster: str, cluster_file: Path, tell: Tell) -> Done:
    """Raises GpuClusterError."""
    uploads.upload(remote, ready.job.inputs, cluster, cluster_file, tell)
    found = submission.submit(remote, ready.job.request, ready.packed, tell)
    for build in found.builds:
        tell(build.description)
    if found.skipped_for:
        return Done(ready.step, found.job_id, found.skipped_for, "queued" if found.queued else "skipped")
    return Done(ready.step, found.job_id, found.folder, "submitted")


def stopped(pipeline: Pipeline, done: Sequence[Done], error: GpuClusterError) -> GpuClusterError:
    """The error of the failed step, with the state of the other steps."""
    name = pipeline.steps[len(done)].name
    queued = ", ".join(f"{each.step.name} (job {each.job_id})" for each in done if each.how != "skipped")
    rest = ", ".join(step.name for step in pipeline.steps[len(done) :])
    message = f"{name}: {error.message}; queued: {queued or 'nothing'}; not submitted: {rest}"
    again = "run the same command again: it submits only jobs that are neither queued nor completed"
    return type(error)(message, f"{error.hint}; {again}" if error.hint else again)
