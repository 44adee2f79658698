"""Whose account on the cluster the commands of this process use, and where its files are.

An environment variable, because programs that a command starts, such as ssh and its ProxyCommand, inherit it.
"""

from __future__ import annotations

import os

ADMINISTRATOR = "ubuntu"
"""The image's own account. It may use sudo, and is the only one if cluster.yaml has no `users`."""
VARIABLE = "GPUCLUSTER_USER"


def user() -> str:
    return os.environ.get(VARIABLE) or ADMINISTRATOR


def home() -> str:
    """On shared storage."""
    return f"/home/{user()}"


def jobs() -> str:
    """A job's folder lies in it."""
    return f"{home()}/jobs"


def tasks() -> str:
    """Beside the jobs' folders."""
    return f"{home()}/tasks"


def inputs() -> str:
    """Local folders that channels name, uploaded."""
    return f"{home()}/inputs"
