"""`gpucluster fetch` of a training job: from S3 and CloudWatch."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gpucluster.addresses import S3Uri
from gpucluster.cli.frame.following import tell
from gpucluster.cli.reach.claimed import claim
from gpucluster.errors import UsageError
from gpucluster.sagemaker.following import fetched, jobs, logs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.training import Training

BELOW = {"all": "", "output": "output", "state": ""}
"""Part -> the folder of the job's objects, or of its state."""


def fetch(account: Account, name: str, part: str, folder: Path | None) -> int:
    """Raises AwsError, UsageError."""
    job = jobs.describe(account, name)
    source = job.checkpoints if part == "state" else str(job.place)
    if not source:
        raise UsageError(f"job {name} keeps no state", "only a job with a name does: docs/sagemaker.md")
    if not job.ended:
        tell(f"job {name} {job.does}: fetch again when it has ended, to get the rest")
    folder = folder or Path(name)
    claim(folder, source)
    if part in BELOW:
        place = S3Uri.of(f"{source}/{BELOW[part]}")
        if not fetched.copy(account, place, folder / BELOW[part]):
            tell(f"there are no objects in {place} yet")
    if part in ("all", "logs"):
        _write(account, job, folder)
    click.echo(folder)
    return 0


def _write(account: Account, job: Training, folder: Path) -> None:
    """log.txt, and result.json with SageMaker's own description."""
    with (folder / "log.txt").open("w", encoding="utf-8", errors="surrogateescape") as file:
        for line in logs.lines(account, job.name):
            file.write(f"{line}\n")
    answer = {key: value for key, value in job.answer.items() if key != "ResponseMetadata"}
    text = json.dumps(answer, indent=2, default=lambda value: value.isoformat())
    (folder / "result.json").write_text(f"{text}\n", encoding="utf-8")
