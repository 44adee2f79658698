"""A job: its keys (`spec`), whether it fits the cluster (`checks`), reading it (`load`), its script (`script`)."""

from __future__ import annotations

from gpucluster.job.load import load
from gpucluster.job.script import SbatchRequest
from gpucluster.job.spec import JobSpec

__all__ = ["JobSpec", "SbatchRequest", "load"]
