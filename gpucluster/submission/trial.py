"""`submit --test-only`: when Slurm would start a job. Nothing is uploaded, and nothing is queued."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpucluster.errors import UsageError
from gpucluster.following.known import find
from gpucluster.head import slurm
from gpucluster.head.remote import Remote

# slurm_job_will_run and slurm_het_job_will_run in Slurm 23.11's src/api/allocate.c; the second names no partition.
_EXPECTED = re.compile(
    r"Job \d+ to start at (?P<start>\S+) using (?P<processors>\d+) processors on (?:nodes )?(?P<nodes>\S+)"
    r"(?: in partition (?P<partition>\S+))?"
)


@dataclass(frozen=True)
class Expected:
    start: str
    """In the head node's time zone, as Slurm writes it."""
    processors: int
    nodes: str
    partition: str | None


def expected(remote: Remote, script: str) -> Expected:
    """Raises UsageError with Slurm's message if it would refuse the job, or RemoteError."""
    done = remote.run(["sbatch", "--test-only"], input=script.encode())
    if found := parse(done.stderr):
        return found
    errors = re.sub("^allocation failure: ", "sbatch: error: ", done.stderr, flags=re.MULTILINE)
    if said := slurm.refusal(errors):
        raise UsageError(f"Slurm would reject the job: {said}", find.advice(said))
    done.check("Slurm did not report when the job would start")
    raise UsageError(f"Slurm did not report when the job would start: {done.stderr.strip() or 'it printed nothing'}")


def parse(text: str) -> Expected | None:
    match = _EXPECTED.search(text)
    if not match:
        return None
    return Expected(match["start"], int(match["processors"]), match["nodes"], match["partition"])
