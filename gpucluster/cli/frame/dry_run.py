"""What `submit --dry-run` prints: the jobs' scripts on stdout, and warnings and the jobs' own packages on stderr."""

from __future__ import annotations

import click

from gpucluster.cli.frame.warn import warn
from gpucluster.submission.prepare import Prepared


def show(*jobs: Prepared) -> None:
    warn(doubt for job in jobs for doubt in job.doubts())
    for job in jobs:
        if job.packages:
            click.echo(job.packages.sentence(), err=True)
        click.echo(job.request.materialize(), nl=False)
