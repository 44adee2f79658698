"""What makes two runs of a task equal: a task whose last run succeeded is skipped if none of these keys changed.

Every key of a job is in one of the two tables, with the reason; docs/state.md shows both.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpucluster.job.spec import JobSpec

COMPARED = {
    "command": "it is what runs",
    "nodes": "the number of ranks changes the batch, and with it the result",
    "gpus_per_node": "as nodes",
    "ntasks_per_node": "as nodes",
    "launcher": "it decides how ranks find each other, and their environment",
    "framework": "the ranks' packages",
    "controller": "another way to sum gradients",
    "min_nodes": "an elastic job may continue with fewer ranks",
    "servers": "as nodes",
    "env": "programs read it",
    "python": "the ranks' packages: the folder's name, not what is in it",
    "requirements": "the ranks' packages: what they ask for, and the files that they name",
    "setup": "as requirements",
    "container_image": "the ranks' packages: the image's name, not what is behind a tag",
    "container_mounts": "what the program can read",
    "channels": "the program's input: its location, not its content; for a task's output, also the run that made it",
    "after": "which runs came before it",
    "outputs": "as exports",
    "exports": "where the result is written",
    "sweep": "the command's values",
    "array": "programs read their index",
}
LEFT_OUT = {
    "name": "it says which task is compared",
    "project": "as name",
    "workdir": "the files in it are compared, wherever the folder is",
    "partition": "it decides which machines compute, not what",
    "time": "a run that succeeded was not stopped by it",
    "secrets": "keys to data, which change without changing the data",
    "efa": "it decides how fast the ranks talk",
    "preflight": "it checks the nodes",
    "requeue": "it decides what happens after a failure",
    "exclusive": "it decides who else computes on the nodes",
    "signal": "it is sent only to a run that does not finish",
    "hang_timeout": "it ends only a run that does not finish",
    "max_parallel": "it decides when the elements run",
    "account": "it decides who pays",
    "qos": "it decides when the job runs",
    "mem": "a run that succeeded had enough",
    "cpus_per_task": "it decides how fast a rank is",
    "constraint": "as partition",
    "reservation": "as partition",
    "dependency": "it decides when the job runs",
    "begin": "it decides when the job runs",
    "output": "it is a second place for the log",
    "sbatch_args": "they decide when and where the job runs",
    "metrics": "they are read from the log, which the run has",
    "state": "where the state is kept, not what is computed from it",
    "resubmit": "it decides what happens at the time limit",
    "resubmit_limit": "as resubmit",
}


def key(spec: JobSpec, more: dict[str, Any]) -> str:
    """`spec` is completed. `more`: hashes of the code, the packages and the environment that its keys name."""
    compared = spec.model_dump(mode="json", include=set(COMPARED) - {"requirements", "setup"})
    text = json.dumps([compared, more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
