"""The command that starts this package again, on other nodes and for each rank, with the node's own Python."""

from __future__ import annotations

import os
import sys

PYTHON = "/usr/bin/python3"


def words(verb: str, *more: str) -> list[str]:
    """The node's Python has boto3 and is the same on every node; outside a cluster this is the running Python."""
    python = PYTHON if os.access(PYTHON, os.X_OK) else sys.executable
    return [python, "-IS", os.path.join(folder(), "lib", "gpucluster_job"), verb, *more]


def folder() -> str:
    """The job's folder, which all nodes mount."""
    return os.environ["GPUCLUSTER_JOB_DIR"]


def root() -> str:
    """The same; for an array's element, the folder of the array, which has the shared files."""
    return os.environ.get("GPUCLUSTER_ARRAY_DIR") or folder()
