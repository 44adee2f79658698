"""TensorBoard's event files in S3: where a job's folder $GPUCLUSTER_TENSORBOARD is copied to."""

from __future__ import annotations

import posixpath

from gpucluster.addresses import S3Uri, in_s3
from gpucluster.config.models import ClusterConfig
from gpucluster.job import channels
from gpucluster.job.spec import JobSpec
from gpucluster.job.task import Task

BELOW = "tensorboard"


def place(spec: JobSpec, config: ClusterConfig, folder: str) -> str:
    """Below the first prefix of `s3_access` that jobs may write, by cluster and task, or by the job's folder. Empty if
    there is none, if the state is copied to S3, which the event files are part of, or if the job brings other keys."""
    written = next((each.uri for each in config.s3_access if each.access == "read-write"), None)
    if written is None or in_s3(spec.state) or channels.brings_keys(spec):
        return ""
    task = Task.of(spec)
    return f"{S3Uri.of(written)}/{BELOW}/{config.name}/{task.label if task else posixpath.basename(folder)}"
