"""A job's number as an argument, looked at before anybody is asked."""

from __future__ import annotations

import re

import click


def job_id(value: str) -> str:
    """12; 12_3, a task of an array; 12+1, a part of a heterogeneous job."""
    if not re.fullmatch(r"\d+([_+]\d+)?", value):
        raise click.BadParameter(f"must be a job ID such as 12, got {value!r}; `gpucluster jobs` lists them")
    return value
