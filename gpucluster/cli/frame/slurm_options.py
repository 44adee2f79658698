"""`submit`'s options that are passed on to Slurm, with sbatch's names and letters, except -c: the cluster file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gpucluster.cli.frame.job_options import NUMBER_OR_NULL, name_values

OPTIONS = (
    click.option(
        "--sweep",
        multiple=True,
        metavar="NAME=VALUES",
        callback=name_values,
        help="Run once for each value: lr=0.1,0.01 or seed=1..5; repeatable, for all combinations.",
    ),
    click.option(
        "-a", "--array", metavar="INDEXES", help="Run once for each index: 0-11, or 0-11%4 for four at a time."
    ),
    click.option(
        "--max-parallel",
        type=NUMBER_OR_NULL,
        metavar="N",
        help="How many elements of a sweep or an array run at a time.  [default: all]",
    ),
    click.option("-A", "--account", metavar="NAME", help="Slurm account to charge."),
    click.option("-q", "--qos", metavar="NAME", help="Slurm's quality of service."),
    click.option(
        "--mem",
        metavar="SIZE",
        help="Memory that each node must have, such as 64G.  [default: none; on other Slurm clusters all of it]",
    ),
    click.option(
        "--cpus-per-task", type=NUMBER_OR_NULL, metavar="N", help="CPUs of each rank.  [default: an equal share]"
    ),
    click.option("-C", "--constraint", metavar="FEATURES", help="Slurm features that the nodes must have."),
    click.option("--reservation", metavar="NAME", help="Slurm reservation to run in."),
    click.option(
        "-d",
        "--dependency",
        metavar="TYPE:JOB_ID",
        help="Start after other jobs, in sbatch's syntax: afterok:12,afterany:13.",
    ),
    click.option("-b", "--begin", metavar="TIME", help="Do not start before: 16:00, tomorrow, now+2hours."),
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        help="Second place for the job's log on the cluster, with sbatch's patterns: logs/%x-%j.out.",
    ),
)


def slurm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command
