"""The command that starts this package again, on other nodes and for each rank, with the node's own Python."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Iterable

PYTHON = "/usr/bin/python3"


def words(verb: str, *more: str) -> list[str]:
    """The node's Python has boto3 and is the same on every node; outside a cluster this is the running Python."""
    python = PYTHON if os.access(PYTHON, os.X_OK) else sys.executable
    return [python, "-IS", os.path.join(folder(), "lib", "gpucluster_job"), verb, *more]


def on_each_node(nodes: Iterable[str], command: list[str]) -> list[subprocess.Popen[bytes]]:
    """Starts a step for each node: the loss of one node must not end the others' steps."""
    one = ["srun", "--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpu-bind=none", "--input=none"]
    steps = ([*one, "--quiet", f"--nodelist={node}", *command] for node in nodes)
    return [subprocess.Popen(step, stdin=subprocess.DEVNULL) for step in steps]


def folder() -> str:
    """The job's folder, which all nodes mount."""
    return os.environ["GPUCLUSTER_JOB_DIR"]


def root() -> str:
    """The same; for an array's element, the folder of the array, which has the shared files."""
    return os.environ.get("GPUCLUSTER_ARRAY_DIR") or folder()
