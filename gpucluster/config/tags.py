"""The user's own tags, which everything of the cluster has beside GpuCluster's."""

from typing import Annotated

from pydantic import WrapValidator

from gpucluster.config.section import pass_refused

Tags = dict[str, Annotated[str, WrapValidator(pass_refused)]]

OURS = "gpucluster:"
"""The prefix of GpuCluster's own tags, by which it finds the cluster's resources."""
