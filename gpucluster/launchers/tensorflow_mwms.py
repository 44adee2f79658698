"""tensorflow-mwms: workers for MultiWorkerMirroredStrategy, the first of them the chief; TF_CONFIG says who is who."""

from __future__ import annotations

from dataclasses import replace

from gpucluster.launchers.tensorflow_ps import TENSORFLOW_PS

TENSORFLOW_MWMS = replace(TENSORFLOW_PS, name="tensorflow-mwms", template="tensorflow-mwms.sh.j2", servers=False)
