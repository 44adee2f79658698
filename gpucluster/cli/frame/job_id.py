"""A job ID as an argument, checked before the cluster is called."""

from __future__ import annotations

import click

from gpucluster.head.arrays import JOB_ID


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
