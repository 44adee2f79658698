"""The launchers by name. To add one: a file here, its template in templates/job/, its line below."""

from __future__ import annotations

from gpucluster.launchers.horovodrun import ELASTIC, HOROVODRUN, OVER_MPI
from gpucluster.launchers.launcher import Launcher
from gpucluster.launchers.mpirun import MPIRUN
from gpucluster.launchers.srun import SRUN
from gpucluster.launchers.torchrun import TORCHRUN

DEFAULT = TORCHRUN.name
LAUNCHERS = {launcher.name: launcher for launcher in (TORCHRUN, HOROVODRUN, MPIRUN, SRUN)}
NOT_BUILT = ("smddp", "mxnet-ps", "tensorflow-ps", "tensorflow-mwms")
WITH_SERVERS = ("mxnet-ps", "tensorflow-ps")

VARIANTS = {(HOROVODRUN.name, "mpi"): OVER_MPI, (HOROVODRUN.name, "elastic"): ELASTIC}


def choose(name: str, controller: str = "gloo", *, elastic: bool = False) -> Launcher:
    """The launcher in the form that the job asks for. Raises KeyError for a name that there is not."""
    return VARIANTS.get((name, "elastic" if elastic else controller), LAUNCHERS[name])


__all__ = ["DEFAULT", "LAUNCHERS", "NOT_BUILT", "VARIANTS", "WITH_SERVERS", "Launcher", "choose"]
