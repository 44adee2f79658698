"""Which of the two targets has a job: the cluster, or SageMaker.

A job of the cluster has a number; a training job has a name. Without either, a verb means the cluster's newest job, or
the newest training job where there is no cluster.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import UsageError
from gpucluster.head.arrays import JOB_ID

if TYPE_CHECKING:
    from gpucluster.sagemaker.following.account import Account
    from gpucluster.sagemaker.found import Found

NAME = re.compile(r"(?=.*[A-Za-z])(?=.*-)[A-Za-z0-9](-*[A-Za-z0-9]){0,62}", re.ASCII)
"""TrainingJobName of botocore's model; those of `submit` end with a time, and so have a hyphen."""
_WANTED = "must be a job ID such as 12, or the name of a training job on SageMaker"


def any_job(value: str) -> str:
    """As an argument of a verb for both targets."""
    if not JOB_ID.fullmatch(value) and not NAME.fullmatch(value):
        raise click.BadParameter(f"{_WANTED}, got {value!r}; `gpucluster jobs` lists them")
    return value


def sagemaker(context: CliContext, job_id: str | None) -> Account | None:
    """The account that has this job, or the newest one; None if the cluster has it. Raises ConfigError, UsageError."""
    if job_id is not None and JOB_ID.fullmatch(job_id):
        return None
    if job_id is None and has_cluster(context):
        return None
    found = account(context)
    if job_id is not None and found is None:
        hint = "go to the folder of sagemaker.yaml, or name it with -c; `gpucluster jobs` lists the cluster's jobs"
        raise UsageError(f"{job_id} is the name of a training job on SageMaker, and no sagemaker.yaml is here", hint)
    return found


def account(context: CliContext) -> Account | None:
    """None if the user has no target on SageMaker. Raises ConfigError."""
    where = _found(context)
    if where is None:
        return None
    from gpucluster.sagemaker.following.account import Account

    return Account(where.target, where.connect().client)


def has_cluster(context: CliContext) -> bool:
    """Whether there is a cluster file or a context. Where there is neither a target, the verb says what it lacks."""
    if context.chosen_context():
        return True
    where = _found(context)
    if where and where.file == context.config_path:
        return where.in_cluster_file
    return context.config_path.exists() or where is None


def _found(context: CliContext) -> Found | None:
    """Does not read a cluster file that does not name SageMaker."""
    from gpucluster.sagemaker import found
    from gpucluster.sagemaker.target import FILE

    if not Path(FILE).exists() and not _mentions(context.config_path):
        return None
    try:
        return found.find(context.config_path, chosen=context.chosen)
    except UsageError:
        return None


def _mentions(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "sagemaker" in text or "role_arn" in text
