"""Variables of Weights & Biases and MLflow, so that a run there names its job, cluster and commit. Nobody's program
needs to change for them, and what the user sets wins.

Names: wandb/env.py and wandb/sdk/wandb_settings.py of wandb 0.31 (a run id has none of `:;,#?/'`, a tag at most 64
characters); mlflow/tracking/context/system_environment_context.py and utils/mlflow_tags.py of MLflow 3.17.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

from gpucluster_job import ourselves

_WANDB = ("WANDB_API_KEY", "WANDB_MODE")
_MLFLOW = "MLFLOW_TRACKING_URI"
_LONGEST_ID, _LONGEST_TAG = 60, 64
COMMIT = "commit.json"
"""In the job's folder, if `submit` found a git repository."""


def variables(known: Mapping[str, str], *, first: bool) -> dict[str, str]:
    """`known`: the rank's variables, with those of the job's env and secrets. Empty unless it has those that a tracker
    needs. `first`: rank 0, which has the job's run there; runs of other ranks are the program's own."""
    found: dict[str, str] = {}
    if any(name in known for name in _WANDB):
        found.update(_wandb(known, first))
    if _MLFLOW in known:
        found["MLFLOW_RUN_CONTEXT"] = json.dumps(_tags(known))
    return {name: value for name, value in found.items() if value and name not in known}


def _wandb(known: Mapping[str, str], first: bool) -> dict[str, str]:
    """A job that runs again goes on with its run there: the folder's name is the same, and no other job has it."""
    commit = _commit()
    number = known.get("SLURM_ARRAY_JOB_ID") or known.get("SLURM_JOB_ID", "")
    tags = ["gpucluster", f"job {_job(known)}", f"cluster {known.get('SLURM_CLUSTER_NAME', '')}"]
    tags += ["uncommitted changes"] * bool(commit.get("changed"))
    found = {
        "WANDB_RUN_GROUP": f"{known.get('SLURM_JOB_NAME', 'job')} {number}",
        "WANDB_TAGS": ",".join(tag.replace(",", " ")[:_LONGEST_TAG] for tag in tags),
        "WANDB_GIT_COMMIT": str(commit.get("commit", "")),
    }
    if first:
        name = f"{known.get('SLURM_JOB_NAME', 'job')} {_job(known)}"
        found.update({"WANDB_RUN_ID": _run_id(known), "WANDB_RESUME": "allow", "WANDB_NAME": name})
    return found


def _run_id(known: Mapping[str, str]) -> str:
    """`digits-20261129-120000-4f1a`, and of an element `digits-20261129-120000-4f1a-3`."""
    index = known.get("SLURM_ARRAY_TASK_ID", "")
    name = os.path.basename(ourselves.root()) + (f"-{index}" if index else "")
    return name[-_LONGEST_ID:].lstrip("-._")


def _tags(known: Mapping[str, str]) -> dict[str, str]:
    commit = _commit()
    name, job = known.get("SLURM_JOB_NAME", "job"), _job(known)
    found = {
        "mlflow.runName": f"{name} {job}",
        "mlflow.source.git.commit": str(commit.get("commit", "")),
        "gpucluster.job": job,
        "gpucluster.cluster": known.get("SLURM_CLUSTER_NAME", ""),
        "gpucluster.uncommitted_changes": "true" if commit.get("changed") else "",
    }
    return {name: value for name, value in found.items() if value}


def _job(known: Mapping[str, str]) -> str:
    """12, or 29_3 of an array."""
    array = known.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{known.get('SLURM_ARRAY_TASK_ID', '')}" if array else known.get("SLURM_JOB_ID", "")


def _commit() -> dict[str, Any]:
    try:
        with open(os.path.join(ourselves.root(), COMMIT), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
