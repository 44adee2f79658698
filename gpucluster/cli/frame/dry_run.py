"""What `submit --dry-run` prints: a job's script on stdout, and its own packages on stderr."""

from __future__ import annotations

import click

from gpucluster.submission.prepare import Prepared


def show(job: Prepared) -> None:
    if job.packages:
        click.echo(job.packages.sentence(), err=True)
    click.echo(job.request.materialize(), nl=False)
