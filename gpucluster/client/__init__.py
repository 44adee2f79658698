"""The Python API: `from gpucluster import Cluster, Job`."""

from __future__ import annotations

from gpucluster.client.cluster import Cluster
from gpucluster.client.job import Job
from gpucluster.client.run import Result, Run

__all__ = ["Cluster", "Job", "Result", "Run"]
