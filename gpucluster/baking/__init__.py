"""Baked images: AMIs on which the steps that install something have run, so that nodes boot without installing.

`recipe` says what is baked, `pins` where a synthesis finds the AMI that was made, `bake` makes it.
"""

from __future__ import annotations

from gpucluster.config import ClusterConfig


def builder(config: ClusterConfig) -> ClusterConfig:
    """The cluster file of the stack in which an image for `config` is built: under another name, beside the cluster."""
    return config.model_copy(update={"name": f"{config.name}-image-builder"})
