"""Files for nodes, as text."""

from gpucluster.render.files import (
    JOB_USER,
    NODES_BUNDLE,
    Role,
    bundle,
    image_script,
    library,
    machine,
    node_range,
    slurm,
    step,
    storage,
    user_data,
    version,
)

__all__ = [
    "JOB_USER",
    "Role",
    "bundle",
    "image_script",
    "library",
    "machine",
    "node_range",
    "slurm",
    "step",
    "storage",
    "NODES_BUNDLE",
    "user_data",
    "version",
]
