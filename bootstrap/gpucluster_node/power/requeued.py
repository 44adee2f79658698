"""Jobs that Slurm has requeued because a node was lost or did not boot, and that need not wait any longer.

A requeued job waits for its begin time, 121 s after it was requeued (src/slurmctld/job_mgr.c: cred_expiration), because
a node may still hold credentials of its last run. Slurm does not start it while a node cleans up after it, and issues
new credentials, so an operator may set its begin time to now, but not at once: see CREDENTIALS_DIFFER.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from gpucluster_node import fleet, retry, slurm

DELAY = timedelta(seconds=122)
"""A later begin time is the user's own."""

CREDENTIALS_DIFFER = timedelta(seconds=2)
"""A node refuses a credential that is not at least a second younger than the request that ended the job's last run
("Job credential revoked"; src/slurmd/slurmd/cred_context.c: cred_revoked). slurmctld then completes the job as failed.
Slurm counts a requeued job as submitted after that request (job_mgr.c: batch_requeue_fini), in whole seconds."""


def to_start(
    cluster: fleet.Fleet, jobs: Sequence[slurm.Requeued], nodes: Sequence[slurm.Node], now: datetime
) -> Iterator[str]:
    """The ids of those that may start now. Where EC2 has refused a launch, it would refuse the next one too: those jobs
    wait for their begin time."""
    refused = {
        partition.name
        for node in nodes
        if node.has("DOWN") and retry.was_refused(node) and (partition := cluster.partition_of(node.name))
    }
    for job in jobs:
        ended = now - job.submitted >= CREDENTIALS_DIFFER
        if ended and job.begins - job.submitted <= DELAY and not job.partitions & refused:
            yield job.job_id
