"""cluster.yaml: its keys (`models`), reading it (`load`), rules across keys (`checks`).

`load(path)` gives a ClusterConfig, or raises ConfigError with every problem at once. It only reads
the file: no network, no AWS.
"""

from __future__ import annotations

from gpucluster.config.load import load, loads
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import PARAMETER_SERVERS

__all__ = ["PARAMETER_SERVERS", "ClusterConfig", "load", "loads"]
