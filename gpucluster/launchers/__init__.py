"""The launchers by name. To add one: a file here, its template in templates/job/, its line below."""

from __future__ import annotations

from gpucluster.launchers.horovodrun import HOROVODRUN
from gpucluster.launchers.launcher import Launcher
from gpucluster.launchers.srun import SRUN
from gpucluster.launchers.torchrun import TORCHRUN

DEFAULT = TORCHRUN.name
LAUNCHERS = {launcher.name: launcher for launcher in (TORCHRUN, HOROVODRUN, SRUN)}
NOT_BUILT = ("mpirun", "smddp", "mxnet-ps", "tensorflow-ps", "tensorflow-mwms")
WITH_SERVERS = ("mxnet-ps", "tensorflow-ps")

__all__ = ["DEFAULT", "LAUNCHERS", "NOT_BUILT", "WITH_SERVERS", "Launcher"]
