"""cluster.yaml: what may be in it (`models`), reading it (`load`), what must hold across keys (`checks`).

`load(path)` gives a ClusterConfig, or raises ConfigError with every problem at once. Reading a file is all that this
does: no network, no AWS.
"""

from __future__ import annotations

from gpucluster.config.load import load, loads
from gpucluster.config.models import PARAMETER_SERVERS, ClusterConfig

__all__ = ["PARAMETER_SERVERS", "ClusterConfig", "load", "loads"]
