"""`gpucluster submit pipeline.yaml`: its jobs are submitted over one connection, and shown as a tree."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpucluster.cli.frame import dry_run as shown
from gpucluster.cli.frame import following, tree
from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.warn import warn
from gpucluster.errors import GpuClusterError, UsageError
from gpucluster.head.remote import Remote
from gpucluster.job import pipeline
from gpucluster.job.load import flag_of
from gpucluster.submission import pipeline as submission
from gpucluster.submission import prepare


def run(context: CliContext, path: Path, flags: Sequence[str], *, force: bool, dry_run: bool, follow: bool) -> int:
    """`flags`: the given flags that apply only to a single job."""
    if flags:
        others = ", ".join(sorted(flag_of(flag) for flag in flags))
        what = f"{others} {'are' if len(flags) > 1 else 'is'} for a single job, and {path} has several"
        raise UsageError(what, "write a key of all jobs into the file, under `defaults`")
    layout = context.layout()
    config = layout.config
    found = pipeline.load(layout, path)
    if dry_run:
        shown.show(*(prepare.of(layout, step.spec, step.file, {}) for step in found.steps))
        return 0
    ready = [submission.make_ready(step, layout, os.environ, force=force) for step in found.steps]
    warn(warning for each in ready for warning in each.warnings)
    with head(context, config) as remote:
        done = _submit(context, config, remote, found, ready)
        labels = {each.step.name: f"job {each.job_id} {_how(each)}" for each in done}
        for line in tree.lines(found.project, labels, {step.name: step.after for step in found.steps}):
            following.tell(line)
        try:
            if follow:
                _follow(remote, done)
        finally:
            click.echo(json.dumps({"project": found.project, "jobs": [_entry(each) for each in done]}))
    return 0


def _submit(
    context: CliContext,
    config: Any,
    remote: Remote,
    found: pipeline.Pipeline,
    ready: Sequence[submission.Ready],
) -> list[submission.Done]:
    """Raises GpuClusterError, whose message lists the queued jobs."""
    done: list[submission.Done] = []
    try:
        for each in ready:
            done.append(submission.submit(remote, each, config.name, context.config_path, following.tell))
    except GpuClusterError as error:
        raise submission.stopped(found, done, error) from None
    return done


def _how(done: submission.Done) -> str:
    return {
        "submitted": "submitted",
        "queued": "is already queued, with the same code and inputs",
        "skipped": "succeeded with the same code and inputs: skipped",
    }[done.how]


def _entry(done: submission.Done) -> dict[str, Any]:
    return {"name": done.step.name, "job_id": done.job_id, "folder": done.folder, "how": done.how}


def _follow(remote: Remote, done: Sequence[submission.Done]) -> None:
    """Shows one log after the other. Raises JobFailedError; returns when the user detaches."""
    for each in done:
        if each.how == "skipped":
            continue
        following.tell(f"{each.step.name}:")
        ending = following.follow(remote, each.job_id)
        if ending is None:
            return
        ending.check(each.job_id)
