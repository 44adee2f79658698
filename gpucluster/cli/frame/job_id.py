"""A job ID as an argument, checked before the cluster is called."""

from __future__ import annotations

import re

import click


def job_id(value: str) -> str:
    """12; 12_3, a task of an array; 12+1, a part of a heterogeneous job."""
    if not re.fullmatch(r"\d+([_+]\d+)?", value):
        raise click.BadParameter(f"must be a job ID such as 12, got {value!r}; `gpucluster jobs` lists them")
    return value


def array_id(value: str) -> str:
    """12, of a whole array."""
    if not re.fullmatch(r"\d+", value):
        wanted = "must be the ID of a sweep or an array such as 12"
        raise click.BadParameter(f"{wanted}, got {value!r}; `gpucluster jobs` lists them")
    return value
