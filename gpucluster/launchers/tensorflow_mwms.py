"""tensorflow-mwms: workers for MultiWorkerMirroredStrategy, the first of them the chief; TF_CONFIG says who is who."""

from __future__ import annotations

from dataclasses import replace

from gpucluster.launchers.launcher import COMMAND, LaunchRequest
from gpucluster.launchers.steps import LEADING, LEASHED, roles, single, workers
from gpucluster.launchers.tensorflow_ps import TENSORFLOW_PS

GRACE_S = 10
"""The other workers do the same work as the chief, and may take a moment longer to end."""


def argv(request: LaunchRequest) -> list[str]:
    others = [workers(request, LEASHED, [COMMAND])] if request.world_size > 1 else []
    return roles(request, GRACE_S, *others, single(request, LEADING, "chief", [COMMAND]))


TENSORFLOW_MWMS = replace(TENSORFLOW_PS, name="tensorflow-mwms", argv=argv, servers=False)
