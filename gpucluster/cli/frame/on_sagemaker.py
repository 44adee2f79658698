"""`submit --on sagemaker --dry-run`: the request on stdout; what each rank reads, and warnings, on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.warn import warn
from gpucluster.errors import UsageError


def run(context: CliContext, file: Path | None, flags: Mapping[str, Any], *, dry_run: bool) -> int:
    """Raises ConfigError, JobSpecError, UsageError."""
    import json
    from datetime import UTC, datetime

    from gpucluster.job.load import is_pipeline
    from gpucluster.sagemaker import request, target
    from gpucluster.sagemaker.prepare import prepare

    if not dry_run:
        raise UsageError("--on sagemaker: GpuCluster submits no training jobs", "--dry-run prints the request")
    if file and is_pipeline(file):
        raise UsageError(f"--on sagemaker: {file} describes several jobs", "name the file of one job")
    found = target.load(context.config_path if context.chosen else Path(target.FILE))
    now = datetime.now(UTC).strftime(request.STARTED_AT)
    job = prepare(found, file, flags, now, _listing(found.region))
    warn(job.notes)
    for line in job.planned.reads:
        click.echo(line, err=True)
    for address in job.planned.manifests:
        click.echo(f"manifest that the job needs: {address}", err=True)
    click.echo(json.dumps(job.request, indent=2))
    return 0


def _listing(region: str) -> Any:
    def read(uri: str, everything: bool) -> Any:
        from gpucluster.cluster import credentials
        from gpucluster.cluster.aws import aws_errors
        from gpucluster.sagemaker import listing

        with aws_errors():
            return listing.read(credentials.session(region).client("s3"), uri, all_of_them=everything)

    return read
