"""A job ID as an argument, checked before the cluster is called."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gpucluster.head.arrays import JOB_ID
from gpucluster.sagemaker.following.training import OURS


def job_id(value: str) -> str:
    if not JOB_ID.fullmatch(value):
        raise click.BadParameter(f"must be a job ID such as 12, got {value!r}; `gpucluster jobs` lists them")
    return value


def array_id(value: str) -> str:
    """12, of a whole array."""
    if not JOB_ID.fullmatch(value) or not value.isdigit():
        wanted = "must be the ID of a sweep or an array such as 12"
        raise click.BadParameter(f"{wanted}, got {value!r}; `gpucluster jobs` lists them")
    return value


def sweep_id(value: str) -> str:
    """12, of a whole array; or the name of a sweep on SageMaker."""
    return value if OURS.fullmatch(value) else array_id(value)


def job_and_names(words: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The job ID or the name of a training job, if the first word is one, and names, which begin with a letter."""
    if words and OURS.fullmatch(words[0]):
        return words[0], tuple(words[1:])
    if words and words[0][:1].isdigit():
        return job_id(words[0]), tuple(words[1:])
    return None, tuple(words)
