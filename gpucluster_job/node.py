"""What a node says of itself."""

from __future__ import annotations

NODE_VARIABLES = "/etc/gpucluster/job-environment.sh"
"""What NCCL and libfabric must be told on this instance type, where the job says nothing else."""
SCRATCH, DEFAULT_SCRATCH = "/etc/gpucluster/scratch", "/var/lib/gpucluster/scratch"


def scratch_folder() -> str:
    try:
        with open(SCRATCH, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return DEFAULT_SCRATCH
