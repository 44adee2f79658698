"""`submit`'s options that are passed on to Slurm, with sbatch's names and letters, except -c: the cluster file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gpucluster.cli.frame.job_options import name_values

OPTIONS = (
    click.option(
        "--sweep",
        multiple=True,
        metavar="NAME=VALUES",
        callback=name_values,
        help="Run once for each value, as one job array: lr=0.1,0.01 or seed=1..5; repeatable, for all combinations.",
    ),
    click.option("-a", "--array", metavar="INDEXES", help="Job array, such as 0-11 or 0-11%4."),
    click.option("--max-parallel", type=int, help="Elements of a sweep or an array that run at a time. Default: all."),
    click.option("-A", "--account", help="Slurm account to charge."),
    click.option("-q", "--qos", help="Quality of service."),
    click.option("--mem", metavar="SIZE", help="Memory of each node, such as 64G. Default: all of it."),
    click.option("--cpus-per-task", type=int, help="CPUs of each rank. Default: an equal share."),
    click.option("-C", "--constraint", metavar="FEATURES", help="Features that the nodes must have."),
    click.option("--reservation", metavar="NAME", help="Slurm reservation to run in."),
    click.option("-d", "--dependency", metavar="TYPE:JOB_ID", help="Start after other jobs: afterok:12,afterany:13."),
    click.option("-b", "--begin", metavar="TIME", help="Start no earlier: 16:00, tomorrow, now+2hours."),
)


def slurm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command
