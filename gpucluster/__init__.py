"""GPU training clusters on AWS. `from gpucluster import Cluster, Job` is the Python API: docs/api.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpucluster.client import Cluster, Job, Result, Run

__all__ = ["Cluster", "Job", "Result", "Run"]


def __getattr__(name: str) -> Any:
    """Imports a name on first use, so that the command line starts quickly."""
    if name in __all__:
        from gpucluster import client

        return getattr(client, name)
    raise AttributeError(f"module 'gpucluster' has no attribute {name!r}")
