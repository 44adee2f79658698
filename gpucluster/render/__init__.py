"""What nodes need, as text."""

from gpucluster.render.files import (
    JOB_USER,
    Role,
    bundle,
    fleet,
    image_script,
    machine,
    node_range,
    slurm,
    steps,
    storage,
    user_data,
    version,
)

__all__ = [
    "JOB_USER",
    "Role",
    "bundle",
    "fleet",
    "image_script",
    "machine",
    "node_range",
    "slurm",
    "steps",
    "storage",
    "user_data",
    "version",
]
