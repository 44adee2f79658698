"""Baked images: AMIs on which all installation steps have run, so that nodes install nothing at boot.

`recipe` is an image's content, `pins` stores its AMI id for the synthesis, `bake` builds it.
"""

from __future__ import annotations

from gpucluster.config import ClusterConfig


def builder(config: ClusterConfig) -> ClusterConfig:
    """The cluster file of the separate stack that builds an image for `config`."""
    return config.model_copy(update={"name": f"{config.name}-image-builder"})
