"""The launchers by name. To add one: a file here, and its line below."""

from __future__ import annotations

from gpucluster.launchers.horovodrun import ELASTIC, HOROVODRUN, OVER_MPI
from gpucluster.launchers.launcher import Launcher, LaunchRequest
from gpucluster.launchers.mpirun import MPIRUN
from gpucluster.launchers.mxnet_ps import MXNET_PS
from gpucluster.launchers.smddp import SMDDP
from gpucluster.launchers.srun import SRUN
from gpucluster.launchers.tensorflow_mwms import TENSORFLOW_MWMS
from gpucluster.launchers.tensorflow_ps import TENSORFLOW_PS
from gpucluster.launchers.torchrun import TORCHRUN

DEFAULT = TORCHRUN.name
BUILT = (TORCHRUN, HOROVODRUN, MPIRUN, SMDDP, SRUN, MXNET_PS, TENSORFLOW_PS, TENSORFLOW_MWMS)
LAUNCHERS = {launcher.name: launcher for launcher in BUILT}
WITH_SERVERS = tuple(launcher.name for launcher in BUILT if launcher.servers)

VARIANTS = {(HOROVODRUN.name, "mpi"): OVER_MPI, (HOROVODRUN.name, "elastic"): ELASTIC}


def choose(name: str, controller: str = "gloo", *, elastic: bool = False) -> Launcher:
    """The launcher that the job names, in its elastic form if requested. Raises KeyError for an unknown name."""
    return VARIANTS.get((name, "elastic" if elastic else controller), LAUNCHERS[name])


__all__ = ["DEFAULT", "LAUNCHERS", "VARIANTS", "WITH_SERVERS", "LaunchRequest", "Launcher", "choose"]
