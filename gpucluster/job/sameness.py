"""What makes two runs of a task equal: a task whose last run succeeded is skipped if none of these keys changed.

Every key of a job has a reason for one of the two (gpucluster/job_keys.py); docs/state.md shows both.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpucluster import job_keys
from gpucluster.job.spec import JobSpec

COMPARED = {key.name: key.another_run for key in job_keys.of_job() if key.another_run}
LEFT_OUT = {key.name: key.same_run for key in job_keys.of_job() if key.same_run}


def key(spec: JobSpec, more: dict[str, Any]) -> str:
    """`spec` is completed. `more`: hashes of the code, the packages and the environment that its keys name."""
    compared = spec.model_dump(mode="json", include=set(COMPARED) - {"requirements", "setup"})
    text = json.dumps([compared, more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
