"""squeue's records as jobs. gpucluster/head/slurm.py has the command that prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpucluster.head import arrays, records
from gpucluster.head.slurm import Job


def parse_jobs(text: str) -> list[Job]:
    """In squeue's order. The parts of a job, which Slurm numbers 12+0, 12+1, are one job, and so are the elements of an
    array, 12_0, 12_1."""
    return jobs_of(records.split(text))


def jobs_of(rows: Sequence[str]) -> list[Job]:
    """As `parse_jobs`, from records that were separated already."""
    each = list(_jobs(rows))
    found: dict[str, Job] = {}
    for job in sorted(each, key=lambda job: job.job_id.partition("+")[2]):
        number = job.job_id.partition("+")[0]
        found[number] = _joined(found[number], job) if number in found else replace(job, job_id=number)
    order = dict.fromkeys(job.job_id.partition("+")[0] for job in each)
    return arrays.joined([found[number] for number in order])


def owned(text: str) -> tuple[list[Job], dict[str, str]]:
    """Jobs, and number -> user, from records of `slurm.OWNED_FIELDS`."""
    split = [record.split("|", 3) for record in records.split(text)]
    whole = [fields for fields in split if len(fields) == 4]
    users = {re.split("[_+]", job_id)[0]: user for job_id, _, user, _ in whole}
    return jobs_of([f"{job_id}|{state}|{rest}" for job_id, state, _, rest in whole]), users


def _joined(first: Job, part: Job) -> Job:
    """The job's state and size are those of the first part, which has the workers and runs the script."""
    node_list = ",".join(filter(None, (first.node_list, part.node_list)))
    return replace(first, node_list=node_list)


def _jobs(rows: Sequence[str]) -> Iterator[Job]:
    for record in rows:
        fields = record.split("|", 9)
        if len(fields) == 10 and fields[3].isdecimal():
            job_id, state, partition, nodes, node_list, elapsed, limit, submitted, start, rest = fields
            name, _, reason = rest.rpartition("|")
            yield Job(job_id, state, partition, int(nodes), node_list, elapsed, limit, submitted, start, name, reason)
