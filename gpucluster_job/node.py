"""Settings of the node's instance type."""

from __future__ import annotations

NODE_VARIABLES = "/etc/gpucluster/job-environment.sh"
"""Variables for NCCL and libfabric on this instance type. The job's own values take precedence."""
SCRATCH, DEFAULT_SCRATCH = "/etc/gpucluster/scratch", "/var/lib/gpucluster/scratch"


def scratch_folder() -> str:
    try:
        with open(SCRATCH, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return DEFAULT_SCRATCH
