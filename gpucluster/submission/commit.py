"""The commit of the uploaded code, for jobs whose runs a tracker lists: gpucluster_job/ranks/trackers.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from gpucluster.job.spec import JobSpec
from gpucluster.submission.snapshot import File

TRACKERS = frozenset(["WANDB_API_KEY", "WANDB_MODE", "MLFLOW_TRACKING_URI"])
"""Variables of a job that uses one."""


def files(spec: JobSpec, workdir: Path | None) -> dict[str, File]:
    """None for a job without a tracker, and for code that is in no repository or in one without a commit."""
    if workdir is None or not TRACKERS & {*spec.env, *spec.secrets}:
        return {}
    commit = _git(workdir, "rev-parse", "--verify", "--quiet", "HEAD")
    if not commit:
        return {}
    changed = bool(_git(workdir, "status", "--porcelain", "--", "."))
    return {"commit.json": File(json.dumps({"commit": commit, "changed": changed}) + "\n")}


def _git(workdir: Path, *words: str) -> str:
    """Empty without git."""
    try:
        done = subprocess.run(["git", "-C", str(workdir), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
