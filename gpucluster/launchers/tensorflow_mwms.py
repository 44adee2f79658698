"""tensorflow-mwms: workers for MultiWorkerMirroredStrategy, the first of them the chief; TF_CONFIG lists them."""

from __future__ import annotations

from gpucluster.launchers.launcher import COMMAND, LaunchRequest
from gpucluster.launchers.steps import LEADING, LEASHED, roles, single, workers
from gpucluster.launchers.tensorflow_ps import TENSORFLOW_PS

GRACE_S = 10
"""The other workers do the same work as the chief, and may end a moment later."""


def argv(request: LaunchRequest) -> list[str]:
    others = [workers(request, LEASHED, [COMMAND])] if request.world_size > 1 else []
    return roles(request, GRACE_S, *others, single(request, LEADING, "chief", [COMMAND]))


TENSORFLOW_MWMS = TENSORFLOW_PS._replace(name="tensorflow-mwms", argv=argv, servers=False)
