"""How this package is started again: on other nodes, for each rank, in the node's own Python."""

from __future__ import annotations

import os
import sys

PYTHON = "/usr/bin/python3"


def words(verb: str, *more: str) -> list[str]:
    """The node's Python has boto3 and is the same on every node; elsewhere whatever runs this."""
    python = PYTHON if os.access(PYTHON, os.X_OK) else sys.executable
    return [python, "-IS", os.path.join(folder(), "lib", "gpucluster_job"), verb, *more]


def folder() -> str:
    """The job's, which all its nodes see."""
    return os.environ["GPUCLUSTER_JOB_DIR"]
